// Reads the environment into one checked, frozen object. All problems are reported at once, each with
// its remedy.
import { join, resolve } from 'node:path'
import type { Budgets } from '../domain/attempt.ts'
import { ACCESS_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import { defaultIssuer, readIssuer, readOrigins, readProxies } from './addresses.ts'
import { type DatabaseConfig, judgeDatabase, readDatabase } from './database.ts'
import { type PageConfig, readPage } from './page.ts'
import { type Environment, Reader } from './reader.ts'
import { warnOfUnknown } from './unknown-variables.ts'
import { LOG_LEVELS, PASSWORD_ENGINES, VARIABLES } from './variables.ts'

export type TlsFiles = { certFile: string; keyFile: string }

export type Config = Readonly<{
  environment: 'development' | 'production' | 'test'
  host: string
  port: number
  opsHost: string
  opsPort: number
  adminHost: string
  /** 0: no admin API. */
  adminPort: number
  adminTokensFile: string
  dataDir: string
  database: DatabaseConfig
  /** Null: the development certificate, or plain HTTP behind a trusted proxy. */
  tls: TlsFiles | null
  /** Proxies whose X-Forwarded-* headers are trusted. */
  trustedProxies: readonly string[]
  /** Null: not set. Production then allows no origin, development allows any. */
  corsOrigins: readonly string[] | null
  /** Origins to which the page may send the user after a login. */
  returnToOrigins: readonly string[]
  page: PageConfig
  signingKeysFile: string
  tokens: Readonly<{ issuer: string; audience: string; accessSeconds: number }>
  bcryptCost: number
  passwordEngine: (typeof PASSWORD_ENGINES)[number]
  /** An attempt that would take longer than this is shed. */
  loginTimeMs: number
  budgets: Readonly<Budgets>
  maxSessionsPerUser: number
  /** Null: not set. The service then decides by whether it runs on a terminal. */
  drainDelayMs: number | null
  logLevel: (typeof LOG_LEVELS)[number]
  /** Settings that are probably wrong but do not prevent a start. */
  warnings: readonly string[]
}>

/** The levels at which every attempt is logged. */
const LOGGING_ATTEMPTS: Config['logLevel'][] = ['info', 'debug', 'trace']

export class ConfigError extends Error {
  readonly problems: string[]

  constructor(problems: string[]) {
    super(
      `The configuration cannot be used:\n${problems.map(problem => `  - ${problem}`).join('\n')}`,
    )
    this.problems = problems
  }
}

/** `warnings` are those of the file `.env`, which the caller has read. */
export function loadConfig(env: Environment, warnings: readonly string[] = []): Config {
  const read = new Reader(env)
  const environment = read.oneOf('NODE_ENV', 'development', ['development', 'production', 'test'])
  const port = read.integer('PORT', 8443, 0, 65535)
  const dataDir = resolve(read.text('DATA_DIR') ?? 'data')
  const issuer = readIssuer(read, environment === 'production')
  const tls = readTls(read)
  const trustedProxies = readProxies(read)
  const database = readDatabase(read, dataDir)
  const config: Config = {
    environment,
    host: read.text('HOST') ?? '127.0.0.1',
    port,
    opsHost: read.text('OPS_HOST') ?? '127.0.0.1',
    opsPort: read.integer('OPS_PORT', 9443, 0, 65535),
    adminHost: read.text('ADMIN_HOST') ?? '127.0.0.1',
    adminPort: read.integer('ADMIN_PORT', 0, 0, 65535),
    adminTokensFile: resolve(read.text('ADMIN_TOKENS_FILE') ?? join(dataDir, 'admin-tokens.json')),
    dataDir,
    database,
    tls,
    trustedProxies,
    corsOrigins: readOrigins(read, 'CORS_ORIGINS'),
    returnToOrigins: readOrigins(read, 'RETURN_TO_ORIGINS') ?? [],
    page: readPage(read, environment === 'production'),
    signingKeysFile: resolve(read.text('SIGNING_KEYS_FILE') ?? join(dataDir, 'signing-keys.json')),
    tokens: {
      issuer: issuer ?? defaultIssuer(port),
      audience: read.text('JWT_AUDIENCE') ?? issuer ?? defaultIssuer(port),
      accessSeconds: readAccessSeconds(read, environment),
    },
    // A lower cost makes guessing at stolen hashes too fast. Hashes of tests protect nothing.
    bcryptCost: read.integer('BCRYPT_COST', 12, environment === 'test' ? 4 : 10, 15),
    passwordEngine: read.oneOf('PASSWORD_ENGINE', 'lanes', PASSWORD_ENGINES),
    loginTimeMs: read.integer('LOGIN_TIME_MS', 1_000, 500, 5_000),
    budgets: {
      pair: read.integer('THROTTLE_PAIR_FAILURES', 5, 1, 1e9),
      email: read.integer('THROTTLE_EMAIL_FAILURES', 20, 1, 1e9),
      client: read.integer('THROTTLE_CLIENT_FAILURES', 50, 1, 1e9),
      network: read.integer('THROTTLE_NETWORK_FAILURES', 500, 1, 1e9),
    },
    maxSessionsPerUser: read.integer('MAX_SESSIONS_PER_USER', 100, 1, 1_000),
    drainDelayMs: read.integer('DRAIN_DELAY_MS', null, 0, 60_000),
    logLevel: read.oneOf('LOG_LEVEL', 'info', LOG_LEVELS),
    warnings: [
      ...warnings,
      ...warnOfUnknown(env, Object.keys(VARIABLES)),
      ...judgeDatabase(database, env).warnings,
      ...plainOrigins(read).map(
        ({ name, plain }) =>
          `${name} has ${plain}: browsers take http:// for another site and do not send the session cookie from there. Use https:// (docs/integrating.md).`,
      ),
    ],
  }
  if (config.adminPort > 0 && !tls && trustedProxies.length > 0) {
    read.problems.push(
      'ADMIN_PORT needs TLS of its own, also behind a TLS proxy: set TLS_CERT_FILE and TLS_KEY_FILE, or leave ADMIN_PORT out.',
    )
  }
  if (environment === 'production') read.problems.push(...unsafeInProduction(read, config, env))
  if (read.problems.length > 0) throw new ConfigError(read.problems)
  return deepFreeze(config)
}

/** With PORT=0 the system chooses the port; the default issuer and audience contain the chosen one. */
export function tokensAt(boundPort: number, { tokens, port }: Config): Config['tokens'] {
  const toBound = (name: string) => (name === defaultIssuer(port) ? defaultIssuer(boundPort) : name)
  return { ...tokens, issuer: toBound(tokens.issuer), audience: toBound(tokens.audience) }
}

/** One hour is specified. Applications need a shorter time to test what they do when it is over. */
function readAccessSeconds(read: Reader, environment: Config['environment']): number {
  const name = 'ACCESS_TOKEN_SECONDS'
  if (environment === 'test')
    return read.integer(name, ACCESS_TOKEN_SECONDS, 1, ACCESS_TOKEN_SECONDS)
  if (read.text(name) !== null) {
    read.problems.push(`${name} is for tests: set NODE_ENV=test too, or remove it.`)
  }
  return ACCESS_TOKEN_SECONDS
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null) deepFreeze(part)
  }
  return Object.freeze(value)
}

function unsafeInProduction(read: Reader, config: Config, env: Environment): string[] {
  const problems: string[] = []
  if (!config.tls && config.trustedProxies.length === 0) {
    problems.push(
      'In production set TLS_CERT_FILE and TLS_KEY_FILE, or TRUST_PROXY to the addresses of the TLS proxy in front.',
    )
  }
  if (!read.text('SIGNING_KEYS_FILE')) {
    problems.push(
      'In production set SIGNING_KEYS_FILE ("npx login-service keys rotate" creates one).',
    )
  }
  if (!read.text('JWT_ISSUER')) {
    problems.push('In production set JWT_ISSUER to the public address of the service.')
  }
  problems.push(...judgeDatabase(config.database, env).problems)
  for (const { name, plain } of plainOrigins(read)) {
    problems.push(`In production ${name} must be https:// origins, not ${plain}.`)
  }
  if (!LOGGING_ATTEMPTS.includes(config.logLevel)) {
    problems.push(
      'In production LOG_LEVEL must be info, debug or trace: every login attempt must be logged.',
    )
  }
  return problems
}

/** The origins of each list that are not https. */
function plainOrigins(read: Reader): { name: string; plain: string }[] {
  return (['CORS_ORIGINS', 'RETURN_TO_ORIGINS'] as const).flatMap(name => {
    const plain = (read.list(name) ?? []).filter(origin => !origin.startsWith('https://'))
    return plain.length > 0 ? { name, plain: plain.join(', ') } : []
  })
}

function readTls(read: Reader): TlsFiles | null {
  const certFile = read.text('TLS_CERT_FILE')
  const keyFile = read.text('TLS_KEY_FILE')
  if (certFile && keyFile) return { certFile: resolve(certFile), keyFile: resolve(keyFile) }
  if (certFile || keyFile)
    read.problems.push('Set both TLS_CERT_FILE and TLS_KEY_FILE, or neither.')
  return null
}
