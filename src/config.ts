// The environment as one frozen, checked object. Every problem is reported at once, each with what
// to do about it.
import { join, resolve } from 'node:path'
import ipaddr from 'ipaddr.js'
import type { Budgets } from './login/throttle.ts'
import { ISSUER_MAX_BYTES } from './session/refresh-token.ts'
import type { DatabaseConfig } from './storage/open-store.ts'
import { LOG_LEVELS, VARIABLES } from './variables.ts'

export type TlsFiles = { certFile: string; keyFile: string }

export type Config = Readonly<{
  environment: 'development' | 'production' | 'test'
  host: string
  port: number
  opsHost: string
  opsPort: number
  dataDir: string
  database: DatabaseConfig
  /** Null: the development certificate, or none at all behind a proxy. */
  tls: TlsFiles | null
  /** Peers whose X-Forwarded-* headers count. */
  trustedProxies: readonly string[]
  /** Null: none was given, which means none in production and any in development. */
  corsOrigins: readonly string[] | null
  signingKeysFile: string
  tokens: Readonly<{ issuer: string; audience: string }>
  bcryptCost: number
  budgets: Readonly<Budgets>
  logLevel: (typeof LOG_LEVELS)[number]
  /** Not wrong enough to refuse, but surely not meant. */
  warnings: readonly string[]
}>

/** The levels at which no attempt goes unlogged. */
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

type Environment = Record<string, string | undefined>

/** Collects what is wrong while values are read, so that nobody has to fix one thing at a time. */
class Reader {
  readonly problems: string[] = []
  readonly #env: Environment

  constructor(env: Environment) {
    this.#env = env
  }

  text(name: string): string | null {
    const value = this.#env[name]?.trim()
    return value ? value : null
  }

  integer(name: string, fallback: number, min: number, max: number): number {
    const text = this.text(name)
    if (text === null) return fallback
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    this.problems.push(`${name} must be a whole number from ${min} to ${max}, not "${text}".`)
    return fallback
  }

  oneOf<T extends string>(name: string, fallback: T, allowed: readonly T[]): T {
    const text = this.text(name)
    if (text === null) return fallback
    const value = allowed.find(candidate => candidate === text)
    if (value === undefined)
      this.problems.push(`${name} must be one of ${allowed.join(', ')}, not "${text}".`)
    return value ?? fallback
  }

  list(name: string): string[] | null {
    const entries = this.text(name)
      ?.split(',')
      .map(entry => entry.trim())
      .filter(Boolean)
    return entries ?? null
  }
}

export function loadConfig(env: Environment): Config {
  const read = new Reader(env)
  const environment = read.oneOf('NODE_ENV', 'development', ['development', 'production', 'test'])
  const port = read.integer('PORT', 8443, 0, 65535)
  const dataDir = resolve(read.text('DATA_DIR') ?? 'data')
  const issuer = read.text('JWT_ISSUER')
  const tls = readTls(read)
  const trustedProxies = readProxies(read)
  const config: Config = {
    environment,
    host: read.text('HOST') ?? '127.0.0.1',
    port,
    opsHost: read.text('OPS_HOST') ?? '127.0.0.1',
    opsPort: read.integer('OPS_PORT', 9443, 0, 65535),
    dataDir,
    database: readDatabase(read, dataDir),
    tls,
    trustedProxies,
    corsOrigins: readOrigins(read),
    signingKeysFile: resolve(read.text('SIGNING_KEYS_FILE') ?? join(dataDir, 'signing-keys.json')),
    tokens: {
      issuer: issuer ?? `https://localhost:${port}`,
      audience: read.text('JWT_AUDIENCE') ?? issuer ?? `https://localhost:${port}`,
    },
    // Below 10 a stolen hash is too quick to guess; the tests have no secrets to lose.
    bcryptCost: read.integer('BCRYPT_COST', 12, environment === 'test' ? 4 : 10, 15),
    budgets: {
      pair: read.integer('THROTTLE_PAIR_FAILURES', 5, 1, 1e9),
      email: read.integer('THROTTLE_EMAIL_FAILURES', 20, 1, 1e9),
      client: read.integer('THROTTLE_CLIENT_FAILURES', 50, 1, 1e9),
    },
    logLevel: read.oneOf('LOG_LEVEL', 'info', LOG_LEVELS),
    warnings: unknownNames(env),
  }
  // As it stands in a token, where quotes and the like take more than one byte.
  if (Buffer.byteLength(JSON.stringify(config.tokens.issuer)) - 2 > ISSUER_MAX_BYTES) {
    read.problems.push(`JWT_ISSUER must have at most ${ISSUER_MAX_BYTES} bytes.`)
  }
  if (environment === 'production') read.problems.push(...unsafeInProduction(read, config))
  if (read.problems.length > 0) throw new ConfigError(read.problems)
  return deepFreeze(config)
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null) deepFreeze(part)
  }
  return Object.freeze(value)
}

function unsafeInProduction(read: Reader, config: Config): string[] {
  const problems: string[] = []
  if (!config.tls && config.trustedProxies.length === 0) {
    problems.push(
      'In production set TLS_CERT_FILE and TLS_KEY_FILE, or TRUST_PROXY to the addresses of the TLS proxy in front.',
    )
  }
  if (!read.text('SIGNING_KEYS_FILE')) {
    problems.push(
      'In production set SIGNING_KEYS_FILE ("npm run -s admin -- keys rotate" creates one).',
    )
  }
  if (!read.text('JWT_ISSUER')) {
    problems.push('In production set JWT_ISSUER to the address that clients know the service by.')
  }
  const plain = config.corsOrigins?.filter(origin => !origin.startsWith('https://')) ?? []
  if (plain.length > 0) {
    problems.push(`In production CORS_ORIGINS must be https:// origins, not ${plain.join(', ')}.`)
  }
  if (!LOGGING_ATTEMPTS.includes(config.logLevel)) {
    problems.push(
      'In production LOG_LEVEL must be info, debug or trace: every login attempt is logged.',
    )
  }
  return problems
}

function readTls(read: Reader): TlsFiles | null {
  const certFile = read.text('TLS_CERT_FILE')
  const keyFile = read.text('TLS_KEY_FILE')
  if (certFile && keyFile) return { certFile: resolve(certFile), keyFile: resolve(keyFile) }
  if (certFile || keyFile)
    read.problems.push('Set both TLS_CERT_FILE and TLS_KEY_FILE, or neither.')
  return null
}

function readProxies(read: Reader): string[] {
  const proxies = read.list('TRUST_PROXY') ?? []
  for (const proxy of proxies) {
    if (!isNetwork(proxy)) {
      read.problems.push(
        `TRUST_PROXY takes addresses such as 10.0.0.0/8 or ::1, not "${proxy}" (hop counts are not safe).`,
      )
    } else if (Number(proxy.split('/')[1] ?? 128) < (proxy.includes(':') ? 16 : 8)) {
      read.problems.push(
        `TRUST_PROXY ${proxy} covers too much: whoever it covers can choose its own address.`,
      )
    }
  }
  return proxies
}

/**
 * "1" and "10.1" are addresses to some parsers; here they are mistakes. So is an IPv4 address in IPv6
 * clothes: peers are compared by their plain one.
 */
function isNetwork(text: string): boolean {
  const address = text.split('/')[0] ?? ''
  const isAddress =
    ipaddr.IPv4.isValidFourPartDecimal(address) ||
    (ipaddr.IPv6.isValid(address) && !ipaddr.IPv6.parse(address).isIPv4MappedAddress())
  return isAddress && (address === text || ipaddr.isValidCIDR(text))
}

function readOrigins(read: Reader): string[] | null {
  const origins = read.list('CORS_ORIGINS')
  for (const origin of origins ?? []) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin || origin.includes('*')) {
      read.problems.push(
        `CORS_ORIGINS takes exact origins such as https://app.example.com, not "${origin}".`,
      )
    }
  }
  return origins
}

function readDatabase(read: Reader, dataDir: string): DatabaseConfig {
  const url = read.text('DATABASE_URL')
  if (url === null) return { engine: 'sqlite', file: join(dataDir, 'login.db') }
  if (!URL.canParse(url) || !/^postgres(ql)?:\/\//.test(url)) {
    // The value is not repeated: it may hold a password.
    read.problems.push('DATABASE_URL must look like postgres://user:password@host:5432/name.')
  }
  return { engine: 'postgres', url }
}

/** A misspelt limit would silently not limit anything. */
function unknownNames(env: Environment): string[] {
  return Object.keys(env)
    .filter(name => /^(THROTTLE|TLS)_/.test(name) && !(name in VARIABLES))
    .map(name => `${name} is not a variable of this service and has no effect.`)
}
