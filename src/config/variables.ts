// Every environment variable, declared once. The reader, "serve --help" and docs/configuration.md follow from
// this table.
import { ACCESS_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import { WINDOW_MINUTES } from '../domain/throttle.ts'
import { callbacks, defaultIssuer, issuer, link, networks, origins } from './addresses.ts'
import { postgresUrl } from './database.ts'
import { anyText, choice, color, ENVIRONMENTS, integer, type Kind, line, path } from './kinds.ts'

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export const PASSWORD_ENGINES = ['lanes', 'native'] as const

export type Variable<T, Default extends string | null> = Rules & {
  kind: Kind<T>
  /** Written as the operator would write it. Null: there is none, or config.ts decides it. */
  byDefault: Default
  meaning: string
}

type Rules = {
  /** What the documents say about a default that config.ts decides. */
  decidedDefault?: string
  isForTestsOnly?: boolean
  /** Set if production requires the variable: the end of the sentence "In production set NAME". */
  inProduction?: string
}

const variable = <T, Default extends string | null>(
  kind: Kind<T>,
  byDefault: Default,
  meaning: string,
  rules: Rules = {},
): Variable<T, Default> => ({ kind, byDefault, meaning, ...rules })

const address = anyText('address')
const port = integer(0, 65_535)
const budget = integer(1, 1e9)
const inWindow = `failures in ${WINDOW_MINUTES} minutes`

export const VARIABLES = {
  NODE_ENV: variable(
    choice(ENVIRONMENTS),
    'development',
    '`production` refuses unsafe settings, `test` allows cheap hashes and short access tokens',
  ),
  HOST: variable(address, '127.0.0.1', 'address to listen on'),
  PORT: variable(port, '8443', 'port to listen on; with 0 the system chooses one'),
  OPS_HOST: variable(address, '127.0.0.1', 'address of the health endpoints'),
  OPS_PORT: variable(port, '9443', 'port of the health endpoints; 0 turns them off'),
  ADMIN_HOST: variable(address, '127.0.0.1', 'address of the admin API'),
  ADMIN_PORT: variable(port, '0', 'port of the admin API (docs/admin-api.md); 0 turns it off'),
  ADMIN_TOKENS_FILE: variable(
    path,
    null,
    'digests of the tokens for the admin API; `admin-tokens add` creates it',
    { decidedDefault: 'DATA_DIR/admin-tokens.json' },
  ),
  ADMIN_TLS_CERT_FILE: variable(path, null, 'certificate chain of the admin API, PEM', {
    decidedDefault: 'TLS_CERT_FILE',
  }),
  ADMIN_TLS_KEY_FILE: variable(path, null, 'private key of this certificate, PEM', {
    decidedDefault: 'TLS_KEY_FILE',
  }),
  DATA_DIR: variable(path, './data', 'folder of the files that the service creates'),
  DATABASE_URL: variable(
    postgresUrl,
    null,
    'PostgreSQL, with `sslmode=verify-full` if it is on another machine; several hosts as `postgres://a:5432,b:5432/…`; if not set, SQLite in `DATA_DIR/login.db`',
  ),
  // Hashing is the bottleneck and holds no connection; a login holds one for a few milliseconds.
  DATABASE_POOL_SIZE: variable(
    integer(1, 200),
    '10',
    'most connections of one instance to a PostgreSQL server',
  ),
  TLS_CERT_FILE: variable(path, null, 'certificate chain, PEM'),
  TLS_KEY_FILE: variable(path, null, 'private key of the certificate, PEM'),
  TRUST_PROXY: variable(networks, null, 'the TLS proxies in front'),
  CORS_ORIGINS: variable(origins, null, 'sites whose pages may call the service and log in'),
  RETURN_TO_ORIGINS: variable(
    origins,
    null,
    'sites to which the page may send the user after a login',
  ),
  CODE_CALLBACKS: variable(
    callbacks,
    null,
    'addresses of applications of other sites, to which the page may send the user with a login code (docs/integrating.md)',
  ),
  // A longer name does not fit on a phone.
  BRAND_NAME: variable(line(60), 'Login Service', 'name at the top of the page'),
  BRAND_LOGO_FILE: variable(
    path,
    null,
    'logo of the page: SVG, PNG, WebP or JPEG of at most 64 KiB; by default one in the colour of the buttons',
  ),
  BRAND_COLOR: variable(color, '#3451b2', 'colour of the buttons'),
  HELP_TEXT: variable(line(200), null, 'text under the form instead of "Ask your administrator."'),
  HELP_URL: variable(link('mailto:', 'tel:'), null, 'address to which this text is a link'),
  TERMS_URL: variable(link(), null, 'the terms, linked at the end of the page'),
  PRIVACY_URL: variable(link(), null, 'the privacy notice, linked there too'),
  HOME_URL: variable(
    link(),
    null,
    'address to which the account links if the user came without `return_to`',
  ),
  SIGNING_KEYS_FILE: variable(path, null, 'private JWK Set', {
    decidedDefault: 'DATA_DIR/signing-keys.json',
    inProduction: '("./login-service keys rotate" creates one)',
  }),
  JWT_ISSUER: variable(issuer, null, '`iss` of the tokens', {
    decidedDefault: defaultIssuer('PORT'),
    inProduction: 'to the public address of the service',
  }),
  JWT_AUDIENCE: variable(anyText('text'), null, '`aud` of the access tokens', {
    decidedDefault: 'the issuer',
  }),
  // One hour is specified. Applications need a shorter time to test what they do when it is over.
  ACCESS_TOKEN_SECONDS: variable(
    integer(1, ACCESS_TOKEN_SECONDS),
    String(ACCESS_TOKEN_SECONDS),
    'lifetime of the access tokens',
    { isForTestsOnly: true },
  ),
  // A lower cost makes guessing at stolen hashes too fast. Hashes of tests protect nothing.
  BCRYPT_COST: variable(integer(10, 15, 4), '12', 'each step doubles the work of a login'),
  PASSWORD_MIN_LENGTH: variable(
    integer(8, 64),
    '8',
    'fewest characters of a password that is set; 15 or more are recommended',
  ),
  PASSWORD_ENGINE: variable(
    choice(PASSWORD_ENGINES),
    'lanes',
    '`lanes` verifies several passwords at a time per core (src/bcrypt/README.md); `native` uses npm bcrypt',
  ),
  LOGIN_TIME_MS: variable(
    integer(500, 5_000),
    '1000',
    'milliseconds; a login that would take longer is answered with 503 at once',
  ),
  THROTTLE_PAIR_FAILURES: variable(budget, '5', `${inWindow} per email and client`),
  THROTTLE_EMAIL_FAILURES: variable(budget, '20', `${inWindow} per email`),
  THROTTLE_CLIENT_FAILURES: variable(budget, '50', `${inWindow} per client`),
  THROTTLE_NETWORK_FAILURES: variable(budget, '500', `${inWindow} per network (IPv6 /48)`),
  MAX_SESSIONS_PER_USER: variable(
    integer(1, 1_000),
    '100',
    'live sessions; a login beyond them ends the least recently used one',
  ),
  SESSION_IDLE_MINUTES: variable(
    integer(5, 1_440),
    '30',
    'a session cookie that is not used for this long is invalid; refresh tokens stay valid',
  ),
  SESSION_MAX_DAYS: variable(
    integer(1, 90),
    '30',
    'a session ends this long after its login, even if it is in use; sessions that are open keep their end',
  ),
  AUDIT_DAYS: variable(
    integer(0, 36_500),
    '0',
    'days after which the purge removes audit events; 0 keeps them for ever',
  ),
  DRAIN_DELAY_MS: variable(
    integer(0, 60_000),
    null,
    'milliseconds after SIGTERM in which requests are still served (docs/operations.md)',
    { decidedDefault: '2000, on a terminal 0' },
  ),
  LOG_LEVEL: variable(
    choice(LOG_LEVELS),
    'info',
    'what is logged; production demands `info`, `debug` or `trace`, because every login attempt must be logged',
  ),
  LOG_REFRESHES: variable(
    choice(['each', 'counted']),
    'each',
    'whether each refresh of a session has a log line, or all of a second have one with their count; a repeated refresh always has its own line',
  ),
  LOG_IP: variable(
    choice(['full', 'truncated', 'none']),
    'full',
    'the addresses of clients in the log; `truncated` keeps the network: an IPv4 /24, an IPv6 /48',
  ),
}

/** What the documents and the help say about each variable. */
export function describeVariables() {
  const variables = Object.entries<Variable<unknown, string | null>>(VARIABLES)
  return variables.map(([name, { kind, byDefault, meaning, ...rules }]) => ({
    name,
    byDefault: rules.decidedDefault ?? byDefault ?? '',
    values: kind.values,
    meaning: [
      meaning,
      ...(rules.inProduction ? ['required in production'] : []),
      ...(rules.isForTestsOnly ? ['only with `NODE_ENV=test`'] : []),
    ].join('; '),
  }))
}
