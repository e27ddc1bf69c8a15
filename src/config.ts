// The environment as one frozen, checked object. Every problem is reported at once, each with what
// to do about it.
import { join, resolve } from 'node:path'
import ipaddr from 'ipaddr.js'
import { judgeDatabase, readDatabase } from './database-config.ts'
import { type Environment, Reader } from './environment.ts'
import type { Budgets } from './login/throttle.ts'
import { isLoopback } from './loopback.ts'
import { ISSUER_MAX_BYTES } from './session/refresh-token.ts'
import type { DatabaseConfig } from './storage/open-store.ts'
import { warnOfUnknown } from './unknown-variables.ts'
import { LOG_LEVELS, VARIABLES } from './variables.ts'

export type TlsFiles = { certFile: string; keyFile: string }

export type Brand = Readonly<{
  name: string
  /** Null: a plain one in the brand's colour. */
  logoFile: string | null
  /** As #rrggbb. */
  color: string
}>

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
  /** Where the page may send people after a login. */
  returnToOrigins: readonly string[]
  brand: Brand
  signingKeysFile: string
  tokens: Readonly<{ issuer: string; audience: string }>
  bcryptCost: number
  /** What a login may take. */
  loginTimeMs: number
  budgets: Readonly<Budgets>
  maxSessionsPerUser: number
  logLevel: (typeof LOG_LEVELS)[number]
  /** Not wrong enough to refuse, but surely not meant. */
  warnings: readonly string[]
}>

/** The levels at which no attempt goes unlogged. */
const LOGGING_ATTEMPTS: Config['logLevel'][] = ['info', 'debug', 'trace']

/** More does not fit beside a logo on a phone. */
const BRAND_NAME_MAX_CHARACTERS = 60

export class ConfigError extends Error {
  readonly problems: string[]

  constructor(problems: string[]) {
    super(
      `The configuration cannot be used:\n${problems.map(problem => `  - ${problem}`).join('\n')}`,
    )
    this.problems = problems
  }
}

export function loadConfig(env: Environment): Config {
  const read = new Reader(env)
  const environment = read.oneOf('NODE_ENV', 'development', ['development', 'production', 'test'])
  const port = read.integer('PORT', 8443, 0, 65535)
  const dataDir = resolve(read.text('DATA_DIR') ?? 'data')
  const issuer = readIssuer(read, environment)
  const tls = readTls(read)
  const trustedProxies = readProxies(read)
  const database = readDatabase(read, dataDir)
  const config: Config = {
    environment,
    host: read.text('HOST') ?? '127.0.0.1',
    port,
    opsHost: read.text('OPS_HOST') ?? '127.0.0.1',
    opsPort: read.integer('OPS_PORT', 9443, 0, 65535),
    dataDir,
    database,
    tls,
    trustedProxies,
    corsOrigins: readOrigins(read, 'CORS_ORIGINS'),
    returnToOrigins: readOrigins(read, 'RETURN_TO_ORIGINS') ?? [],
    brand: readBrand(read),
    signingKeysFile: resolve(read.text('SIGNING_KEYS_FILE') ?? join(dataDir, 'signing-keys.json')),
    tokens: {
      issuer: issuer ?? defaultIssuer(port),
      audience: read.text('JWT_AUDIENCE') ?? issuer ?? defaultIssuer(port),
    },
    // Below 10 a stolen hash is too quick to guess; the tests have no secrets to lose.
    bcryptCost: read.integer('BCRYPT_COST', 12, environment === 'test' ? 4 : 10, 15),
    loginTimeMs: read.integer('LOGIN_TIME_MS', 1_000, 500, 5_000),
    budgets: {
      pair: read.integer('THROTTLE_PAIR_FAILURES', 5, 1, 1e9),
      email: read.integer('THROTTLE_EMAIL_FAILURES', 20, 1, 1e9),
      client: read.integer('THROTTLE_CLIENT_FAILURES', 50, 1, 1e9),
      network: read.integer('THROTTLE_NETWORK_FAILURES', 500, 1, 1e9),
    },
    maxSessionsPerUser: read.integer('MAX_SESSIONS_PER_USER', 100, 1, 1_000),
    logLevel: read.oneOf('LOG_LEVEL', 'info', LOG_LEVELS),
    warnings: [
      ...warnOfUnknown(env, Object.keys(VARIABLES)),
      ...judgeDatabase(database, env).warnings,
    ],
  }
  if (environment === 'production') read.problems.push(...unsafeInProduction(read, config, env))
  if (read.problems.length > 0) throw new ConfigError(read.problems)
  return deepFreeze(config)
}

export function defaultIssuer(port: number): string {
  return `https://localhost:${port}`
}

/** Defaults name the port that was bound: with PORT=0 the system chooses it. */
export function tokensAt(boundPort: number, { tokens, port }: Config): Config['tokens'] {
  const toBound = (name: string) => (name === defaultIssuer(port) ? defaultIssuer(boundPort) : name)
  return { issuer: toBound(tokens.issuer), audience: toBound(tokens.audience) }
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
      'In production set SIGNING_KEYS_FILE ("npm run -s admin -- keys rotate" creates one).',
    )
  }
  if (!read.text('JWT_ISSUER')) {
    problems.push('In production set JWT_ISSUER to the address that clients know the service by.')
  }
  problems.push(...judgeDatabase(config.database, env).problems)
  const { corsOrigins, returnToOrigins } = config
  const lists = { CORS_ORIGINS: corsOrigins ?? [], RETURN_TO_ORIGINS: returnToOrigins }
  for (const [name, origins] of Object.entries(lists)) {
    const plain = origins.filter(origin => !origin.startsWith('https://'))
    if (plain.length > 0) {
      problems.push(`In production ${name} must be https:// origins, not ${plain.join(', ')}.`)
    }
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
        `TRUST_PROXY takes addresses such as 10.0.0.5, 10.0.0.0/28 or ::1, not "${proxy}" (hop counts are not safe).`,
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

function readOrigins(read: Reader, name: string): string[] | null {
  const origins = read.list(name)
  for (const origin of origins ?? []) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin || origin.includes('*')) {
      read.problems.push(
        `${name} takes exact origins such as https://app.example.com, not "${origin}".`,
      )
    }
  }
  return origins
}

function readBrand(read: Reader): Brand {
  const name = read.text('BRAND_NAME') ?? 'Login Service'
  if ([...name].length > BRAND_NAME_MAX_CHARACTERS || /\p{Cc}/u.test(name)) {
    read.problems.push(
      `BRAND_NAME must be one line of at most ${BRAND_NAME_MAX_CHARACTERS} characters.`,
    )
  }
  const color = read.text('BRAND_COLOR') ?? '#3451b2'
  if (!/^#([\da-f]{3}|[\da-f]{6})$/i.test(color)) {
    read.problems.push(`BRAND_COLOR must look like #3451b2 or #35b, not "${color}".`)
  }
  const logoFile = read.text('BRAND_LOGO_FILE')
  return {
    name,
    logoFile: logoFile && resolve(logoFile),
    color: color.toLowerCase().replace(/^#(.)(.)(.)$/, '#$1$1$2$2$3$3'),
  }
}

/** RFC 8414, section 2. Tokens carry it as it is written, so only its normal form is taken. */
function readIssuer(read: Reader, environment: Config['environment']): string | null {
  const issuer = read.text('JWT_ISSUER')
  if (issuer === null) return null
  const url = URL.canParse(issuer) ? new URL(issuer) : null
  const isHere = environment !== 'production' && isLoopback(url?.hostname ?? '')
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isHere)
  const isNormal = url?.href === issuer || url?.href === `${issuer}/`
  if (!isSafe || !isNormal || /[?#]/.test(issuer) || url?.username || url?.password) {
    read.problems.push(
      'JWT_ISSUER must be a URL such as https://login.example.com: https, in its normal form, without user, query and fragment.',
    )
  } else if (issuer.length > ISSUER_MAX_BYTES) {
    read.problems.push(`JWT_ISSUER must have at most ${ISSUER_MAX_BYTES} characters.`)
  }
  return issuer
}
