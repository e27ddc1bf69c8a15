// Reads the environment into one checked, frozen object. All problems are reported at once, each with
// its remedy.
import { join } from 'node:path'
import type { Budgets } from '../domain/attempt.ts'
import { defaultIssuer, isLoopback } from './addresses.ts'
import type { DatabaseConfig } from './database.ts'
import type { Environment } from './kinds.ts'
import { readVariables, type VariableValues } from './reader.ts'
import { warnOfUnknown } from './unknown-variables.ts'
import { VARIABLES } from './variables.ts'

export type Config = Readonly<ReturnType<typeof toConfig>>

export type TlsFiles = { certFile: string; keyFile: string }

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
  const { values, ...read } = readVariables(env)
  const problems = [...read.problems, ...contradictionsOf(values)]
  if (problems.length > 0) throw new ConfigError(problems)
  const unknown = warnOfUnknown(env, Object.keys(VARIABLES))
  const allWarnings = [...warnings, ...unknown, ...read.warnings, ...warnOfPlainHttp(values)]
  return deepFreeze(toConfig(values, allWarnings))
}

/** With PORT=0 the system chooses the port; the default issuer and audience contain the chosen one. */
export function tokensAt(boundPort: number | 'PORT', { tokens, port }: Config): Config['tokens'] {
  const toBound = (name: string) => (name === defaultIssuer(port) ? defaultIssuer(boundPort) : name)
  return { ...tokens, issuer: toBound(tokens.issuer), audience: toBound(tokens.audience) }
}

/** Whether every attempt is logged at this level. */
export function logsAttempts(level: Config['logLevel']): boolean {
  return ['info', 'debug', 'trace'].includes(level)
}

function toConfig(values: VariableValues, warnings: readonly string[]) {
  const { DATA_DIR: dataDir, PORT: port } = values
  const issuer = values.JWT_ISSUER ?? defaultIssuer(port)
  return {
    environment: values.NODE_ENV,
    host: values.HOST,
    port,
    opsHost: values.OPS_HOST,
    opsPort: values.OPS_PORT,
    adminHost: values.ADMIN_HOST,
    /** 0: no admin API. */
    adminPort: values.ADMIN_PORT,
    adminTokensFile: values.ADMIN_TOKENS_FILE ?? join(dataDir, 'admin-tokens.json'),
    dataDir,
    database: toDatabase(values),
    /** Null: the development certificate, or plain HTTP behind a trusted proxy. */
    tls: toPair(values.TLS_CERT_FILE, values.TLS_KEY_FILE),
    /** Null: the admin API, if there is one, serves the certificate of the public port. */
    adminTls:
      values.ADMIN_PORT > 0 ? toPair(values.ADMIN_TLS_CERT_FILE, values.ADMIN_TLS_KEY_FILE) : null,
    /** Proxies whose X-Forwarded-* headers are trusted. */
    trustedProxies: values.TRUST_PROXY ?? [],
    /** Null: not set. Production then allows no origin, development allows any. */
    corsOrigins: values.CORS_ORIGINS,
    /** Origins to which the page may send the user after a login. */
    returnToOrigins: values.RETURN_TO_ORIGINS ?? [],
    /** Addresses of applications of other sites to which the page may give a code. */
    codeCallbacks: values.CODE_CALLBACKS ?? [],
    page: {
      brandName: values.BRAND_NAME,
      /** Null: the built-in logo in the brand's colour. */
      logoFile: values.BRAND_LOGO_FILE,
      brandColor: values.BRAND_COLOR,
      /** Null: a sentence that names the administrator. */
      helpText: values.HELP_TEXT,
      helpUrl: values.HELP_URL,
      termsUrl: values.TERMS_URL,
      privacyUrl: values.PRIVACY_URL,
      /** Where a user goes that came without an address to return to. */
      homeUrl: values.HOME_URL,
    },
    signingKeysFile: values.SIGNING_KEYS_FILE ?? join(dataDir, 'signing-keys.json'),
    tokens: {
      issuer,
      audience: values.JWT_AUDIENCE ?? issuer,
      accessSeconds: values.ACCESS_TOKEN_SECONDS,
    },
    bcryptCost: values.BCRYPT_COST,
    /** What a new password must obey; `minLength` in characters. */
    passwordRules: { minLength: values.PASSWORD_MIN_LENGTH, brandName: values.BRAND_NAME },
    passwordEngine: values.PASSWORD_ENGINE,
    /** An attempt that would take longer than this is shed. */
    loginTimeMs: values.LOGIN_TIME_MS,
    budgets: {
      pair: values.THROTTLE_PAIR_FAILURES,
      email: values.THROTTLE_EMAIL_FAILURES,
      client: values.THROTTLE_CLIENT_FAILURES,
      network: values.THROTTLE_NETWORK_FAILURES,
    } satisfies Budgets,
    maxSessionsPerUser: values.MAX_SESSIONS_PER_USER,
    cookieIdleSeconds: values.SESSION_IDLE_MINUTES * 60,
    sessionMaxSeconds: values.SESSION_MAX_DAYS * 24 * 3600,
    /** 0: audit events are kept for ever. */
    auditDays: values.AUDIT_DAYS,
    /** Null: not set. The service then decides by whether it runs on a terminal. */
    drainDelayMs: values.DRAIN_DELAY_MS,
    logLevel: values.LOG_LEVEL,
    areRefreshesCounted: values.LOG_REFRESHES === 'counted',
    logIp: values.LOG_IP,
    /** Settings that are probably wrong but do not prevent a start. */
    warnings,
  }
}

function toDatabase(values: VariableValues): DatabaseConfig {
  const { DATABASE_URL: url, DATABASE_POOL_SIZE: poolSize } = values
  if (url === null) return { engine: 'sqlite', file: join(values.DATA_DIR, 'login.db') }
  return { engine: 'postgres', url, poolSize }
}

function toPair(certFile: string | null, keyFile: string | null): TlsFiles | null {
  return certFile && keyFile ? { certFile, keyFile } : null
}

function warnOfPlainHttp(values: VariableValues): string[] {
  const { HOST, TRUST_PROXY, TLS_CERT_FILE } = values
  if (TLS_CERT_FILE || !TRUST_PROXY?.length || isLoopback(HOST)) return []
  return [
    `With HOST=${HOST} the proxy sends passwords and tokens over the network unencrypted. Set TLS_CERT_FILE and TLS_KEY_FILE, and let the proxy use TLS and verify the certificate (docs/operations.md); if it is on this machine, set HOST=127.0.0.1.`,
  ]
}

/** Problems of several variables together. */
function contradictionsOf(values: VariableValues): string[] {
  const { NODE_ENV, TLS_CERT_FILE, TRUST_PROXY, ADMIN_TLS_CERT_FILE, ADMIN_PORT, LOG_LEVEL } =
    values
  const problems: string[] = []
  const hasProxy = TRUST_PROXY !== null && TRUST_PROXY.length > 0
  for (const prefix of ['', 'ADMIN_'] as const) {
    const [cert, key] = [`${prefix}TLS_CERT_FILE`, `${prefix}TLS_KEY_FILE`] as const
    if ((values[cert] === null) !== (values[key] === null)) {
      problems.push(`Set both ${cert} and ${key}, or neither.`)
    }
  }
  // Not TLS_CERT_FILE: with it the public port would speak TLS too, and the proxy in front plain HTTP.
  if (ADMIN_PORT > 0 && !TLS_CERT_FILE && !ADMIN_TLS_CERT_FILE && hasProxy) {
    problems.push(
      'ADMIN_PORT needs TLS of its own, also behind a TLS proxy: set ADMIN_TLS_CERT_FILE and ADMIN_TLS_KEY_FILE, or leave ADMIN_PORT out.',
    )
  }
  if (NODE_ENV !== 'production') return problems
  if (!TLS_CERT_FILE && !hasProxy) {
    problems.push(
      'In production set TLS_CERT_FILE and TLS_KEY_FILE, or TRUST_PROXY to the addresses of the TLS proxy in front.',
    )
  }
  if (!logsAttempts(LOG_LEVEL)) {
    problems.push(
      'In production LOG_LEVEL must be info, debug or trace: every login attempt must be logged.',
    )
  }
  return problems
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null) deepFreeze(part)
  }
  return Object.freeze(value)
}
