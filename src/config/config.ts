// Reads the environment into one checked, frozen object. All problems are reported at once, each with
// its remedy.
import { join } from 'node:path'
import type { Budgets } from '../domain/attempt.ts'
import { ACCESS_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import { DEFAULT_ROLE } from '../domain/user.ts'
import { defaultIssuer, isLoopback, passkeyDomain } from './addresses.ts'
import type { DatabaseConfig } from './database.ts'
import { ENVIRONMENTS, type Environment } from './kinds.ts'
import { warnOfUnknown } from './unknown-variables.ts'
import { toCamelCase, VARIABLES, type Values } from './variables.ts'

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
  const problems = [...read.problems, ...contradictionsOf(values), ...sharedPortsOf(values)]
  if (problems.length > 0) throw new ConfigError(problems)
  const unknown = warnOfUnknown(env)
  const own = [...warnOfPlainHttp(values), ...warnOfNoConsole(values)]
  const allWarnings = [...warnings, ...unknown, ...read.warnings, ...own]
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

/** Collects all problems, so that the operator can fix them together. */
function readVariables(env: Environment) {
  const problems: string[] = []
  const warnings: string[] = []
  const environment = ENVIRONMENTS.find(name => name === env.NODE_ENV?.trim()) ?? 'development'
  const entries = VARIABLES.map(({ name, kind, byDefault }) => {
    const parse = (text: string) =>
      kind.parse(text, {
        ...{ name, environment, env },
        refuse: problem => void problems.push(problem),
        warn: warning => warnings.push(warning),
      })
    const text = env[name]?.trim()
    const value = text ? parse(text) : undefined
    return [toCamelCase(name), value ?? (byDefault === null ? null : parse(byDefault))]
  })
  return { values: Object.fromEntries(entries) as Values, problems, warnings }
}

/** The values by the names of their variables, and below what is made of several, or of one in another unit. */
function toConfig(values: Values, warnings: readonly string[]) {
  const { dataDir, brandName, brandColor, helpText, helpUrl, termsUrl, privacyUrl, homeUrl } =
    values
  const issuer = values.jwtIssuer ?? defaultIssuer(values.port)
  const passkeyRpId = passkeyDomain(issuer, values.passkeyRpId)
  return {
    ...values,
    signingKeysFile: values.signingKeysFile ?? join(dataDir, 'signing-keys.json'),
    database: toDatabase(values),
    /** Null: the development certificate, or plain HTTP behind a trusted proxy. */
    tls: toPair(values.tlsCertFile, values.tlsKeyFile),
    /** Null: the admin API, if there is one, serves the certificate of the public port. */
    adminTls: values.adminPort > 0 ? toPair(values.adminTlsCertFile, values.adminTlsKeyFile) : null,
    page: {
      ...{ brandName, brandColor, helpText, helpUrl, termsUrl, privacyUrl, homeUrl },
      /** Null: the built-in logo in the brand's colour. */
      logoFile: values.brandLogoFile,
    },
    tokens: {
      issuer,
      audience: values.jwtAudience ?? issuer,
      accessSeconds: values.accessTokenSeconds,
    },
    console: toConsole(values, passkeyRpId),
    /** Null if there are no passkeys. */
    passkeyRpId,
    /** What a new password must obey; `minLength` in characters. */
    passwordRules: { minLength: values.passwordMinLength, brandName },
    budgets: {
      pair: values.throttlePairFailures,
      email: values.throttleEmailFailures,
      client: values.throttleClientFailures,
      network: values.throttleNetworkFailures,
    } satisfies Budgets,
    cookieIdleSeconds: values.sessionIdleMinutes * 60,
    sessionMaxSeconds: values.sessionMaxDays * 24 * 3600,
    /** Settings that are probably wrong but do not prevent a start. */
    warnings,
  }
}

/** Null if there is none. */
function toConsole(values: Values, domain: string | null = null) {
  const { nodeEnv, adminPort, adminOrigin, adminRoles, helpdeskRoles, secondFactorRoles } = values
  const roles = [...adminRoles, ...helpdeskRoles]
  if (adminPort === 0 || roles.length === 0) return null
  return {
    ...{ adminRoles, helpdeskRoles },
    /** It shares the passkeys of the public pages, if its host is of the same domain. */
    passkeyRpId: adminOrigin && domain && passkeyDomain(adminOrigin, domain),
    /** The roles whose users get in there only with a second factor. */
    demandingRoles: nodeEnv === 'production' ? [...secondFactorRoles, ...roles] : secondFactorRoles,
  }
}

function toDatabase({ databaseUrl: url, databasePoolSize, dataDir }: Values): DatabaseConfig {
  if (url === null) return { engine: 'sqlite', file: join(dataDir, 'login.db') }
  return { engine: 'postgres', url, poolSize: databasePoolSize }
}

function toPair(certFile: string | null, keyFile: string | null): TlsFiles | null {
  return certFile && keyFile ? { certFile, keyFile } : null
}

function warnOfPlainHttp({ host, trustProxy, tlsCertFile }: Values): string[] {
  if (tlsCertFile || trustProxy.length === 0 || isLoopback(host)) return []
  return [
    `With HOST=${host} the proxy sends passwords and tokens over the network unencrypted. Set TLS_CERT_FILE and TLS_KEY_FILE, and let the proxy use TLS and verify the certificate (docs/operations.md); if it is on this machine, set HOST=127.0.0.1.`,
  ]
}

function warnOfNoConsole({ adminPort, adminRoles, helpdeskRoles }: Values): string[] {
  if (adminPort > 0 || adminRoles.length + helpdeskRoles.length === 0) return []
  return ['ADMIN_ROLES and HELPDESK_ROLES have no effect: the console needs ADMIN_PORT.']
}

/** Problems of several variables together. */
function contradictionsOf(values: Values): string[] {
  const { nodeEnv, tlsCertFile, adminTlsCertFile, trustProxy, adminRoles, helpdeskRoles } = values
  const consoleRoles = [...adminRoles, ...helpdeskRoles]
  const isProduction = nodeEnv === 'production'
  const hasTls = tlsCertFile !== null
  const hasProxy = trustProxy.length > 0
  const issuer = values.jwtIssuer ?? defaultIssuer(values.port)
  const problems: Record<string, boolean> = {
    'Set both TLS_CERT_FILE and TLS_KEY_FILE, or neither.': hasTls !== (values.tlsKeyFile !== null),
    'Set both ADMIN_TLS_CERT_FILE and ADMIN_TLS_KEY_FILE, or neither.':
      (adminTlsCertFile === null) !== (values.adminTlsKeyFile === null),
    // Not TLS_CERT_FILE: with it the public port would speak TLS too, and the proxy in front plain HTTP.
    'ADMIN_PORT needs TLS of its own, also behind a TLS proxy: set ADMIN_TLS_CERT_FILE and ADMIN_TLS_KEY_FILE, or leave ADMIN_PORT out.':
      values.adminPort > 0 && !hasTls && !adminTlsCertFile && hasProxy,
    'ACCESS_TOKEN_SECONDS is for tests: set NODE_ENV=test too, or remove it.':
      nodeEnv !== 'test' && values.accessTokenSeconds !== ACCESS_TOKEN_SECONDS,
    'In production set TLS_CERT_FILE and TLS_KEY_FILE, or TRUST_PROXY to the addresses of the TLS proxy in front.':
      isProduction && !hasTls && !hasProxy,
    'In production set SIGNING_KEYS_FILE ("./login-service keys rotate" creates one).':
      isProduction && values.signingKeysFile === null,
    'In production set JWT_ISSUER to the public address of the service.':
      isProduction && values.jwtIssuer === null,
    'In production SECOND_FACTOR_ROLES needs SECOND_FACTOR=on: otherwise the factor that it demands cannot be set up. Set it to on, or remove SECOND_FACTOR_ROLES.':
      isProduction && values.secondFactor === 'off' && values.secondFactorRoles.length > 0,
    // With every role or that of new users, all could take over each other's accounts.
    [`ADMIN_ROLES and HELPDESK_ROLES take roles that few users have, not * or ${DEFAULT_ROLE}.`]:
      consoleRoles.includes('*') || consoleRoles.includes(DEFAULT_ROLE),
    'ADMIN_ROLES and HELPDESK_ROLES have a role in common: list each role once.': adminRoles.some(
      role => helpdeskRoles.includes(role),
    ),
    'In production the console (ADMIN_ROLES, HELPDESK_ROLES) needs SECOND_FACTOR=on: otherwise its users cannot set up the factor that it demands.':
      isProduction && values.secondFactor === 'off' && toConsole(values) !== null,
    'PASSKEY_RP_ID must be the host of JWT_ISSUER, or a domain above it such as example.com for login.example.com: browsers allow no other.':
      passkeyDomain(issuer, values.passkeyRpId) === null && values.passkeyRpId !== null,
    'In production LOG_LEVEL must be info, debug or trace: every login attempt must be logged.':
      isProduction && !logsAttempts(values.logLevel),
  }
  return Object.keys(problems).filter(problem => problems[problem])
}

/** Two servers cannot have the same port of one address; 0.0.0.0 and :: stand for all addresses. */
function sharedPortsOf(values: Values): string[] {
  const { host, port, opsHost, opsPort, adminHost, adminPort } = values
  const servers = [
    { name: 'PORT', at: host, port },
    { name: 'OPS_PORT', at: opsHost, port: opsPort },
    { name: 'ADMIN_PORT', at: adminHost, port: adminPort },
  ].filter(server => server.port > 0)
  const isShared = (a: string, b: string) =>
    a === b || [a, b].some(at => /^(0\.0\.0\.0|::)$/.test(at))
  return servers.flatMap((one, index) =>
    servers
      .slice(index + 1)
      .filter(other => other.port === one.port && isShared(other.at, one.at))
      .map(other => `${one.name} and ${other.name} are both ${one.port}: choose two ports.`),
  )
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null) deepFreeze(part)
  }
  return Object.freeze(value)
}
