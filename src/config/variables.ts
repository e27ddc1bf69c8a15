// Every environment variable, declared once. The values in config.ts and their names, "serve --help" and
// docs/configuration.md follow from this table.
import { ACCESS_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import { WINDOW_MINUTES } from '../domain/throttle.ts'
import { callbacks, issuer, link, networks, origin, origins } from './addresses.ts'
import { postgresUrl } from './database.ts'
import {
  anyText,
  choice,
  color,
  ENVIRONMENTS,
  integer,
  type Kind,
  line,
  path,
  roles,
} from './kinds.ts'

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export const PASSWORD_ENGINES = ['lanes', 'native'] as const

/** The default is written as the operator would write it. Null: there is none, or config.ts decides it. */
type Row = readonly [kind: Kind<unknown>, byDefault: string | null, sentence: string]

const address = anyText('address')
const port = integer(0, 65_535)
const budget = integer(1, 1e9)
const inWindow = `failures in ${WINDOW_MINUTES} minutes`

/** The first group is what every production sets. */
const GROUPS = {
  Essential: {
    NODE_ENV: [choice(ENVIRONMENTS), 'development', '`production` refuses unsafe settings'],
    JWT_ISSUER: [issuer, null, 'public address, `iss` of the tokens; required in production'],
    TRUST_PROXY: [networks, '', 'the TLS proxies in front; without one, set `TLS_CERT_FILE`'],
    DATABASE_URL: [postgresUrl, null, 'PostgreSQL; if not set, SQLite in `DATA_DIR/login.db`'],
    DATA_DIR: [path, './data', 'folder of the files that the service creates'],
    SIGNING_KEYS_FILE: [path, null, 'private JWK Set; required in production'],
  },
  'Ports and certificates': {
    HOST: [address, '127.0.0.1', 'address to listen on'],
    PORT: [port, '8443', 'port to listen on; with 0 the system chooses one'],
    TLS_CERT_FILE: [path, null, 'certificate chain, PEM'],
    TLS_KEY_FILE: [path, null, 'private key of the certificate, PEM'],
    HSTS_SUBDOMAINS: [
      choice(['yes', 'no']),
      'yes',
      '`no` if hosts below this one speak plain HTTP: browsers then demand HTTPS of this host only',
    ],
    OPS_HOST: [address, '127.0.0.1', 'address of the health endpoints'],
    OPS_PORT: [port, '9443', 'port of the health endpoints; 0 turns them off'],
  },
  Administration: {
    ADMIN_HOST: [address, '127.0.0.1', 'address of the admin API and the console'],
    ADMIN_PORT: [port, '0', 'their port (docs/admin-api.md, docs/operations.md); 0 turns them off'],
    ADMIN_TLS_CERT_FILE: [path, null, 'certificate chain, PEM; by default `TLS_CERT_FILE`'],
    ADMIN_TLS_KEY_FILE: [path, null, 'private key, PEM; by default `TLS_KEY_FILE`'],
    ADMIN_ROLES: [roles, '', 'roles that may do everything in the console'],
    HELPDESK_ROLES: [
      roles,
      '',
      'roles that may help users there; without both, there is no console',
    ],
    ADMIN_ORIGIN: [origin, null, 'address of the console in browsers, on a host name of its own'],
    ADMIN_TRUST_PROXY: [networks, '', 'TLS proxies in front of the console; the API needs none'],
  },
  Applications: {
    // If it is not set, production allows no origin, and development allows any.
    CORS_ORIGINS: [origins, null, 'sites whose pages may call the service and log in'],
    RETURN_TO_ORIGINS: [origins, '', 'sites to which the page may send the user after a login'],
    CODE_CALLBACKS: [callbacks, '', 'addresses to which the page may send a login code'],
    JWT_AUDIENCE: [anyText('text'), null, '`aud` of the access tokens; by default the issuer'],
  },
  'The page': {
    // A longer name does not fit on a phone.
    BRAND_NAME: [line(60), 'Login Service', 'name at the top of the page'],
    BRAND_LOGO_FILE: [path, null, 'logo: SVG, PNG, WebP or JPEG of at most 64 KiB'],
    BRAND_COLOR: [color, '#3451b2', 'colour of the buttons'],
    HELP_TEXT: [line(200), null, 'text under the form instead of "Ask your administrator."'],
    HELP_URL: [link('mailto:', 'tel:'), null, 'address to which this text is a link'],
    TERMS_URL: [link(), null, 'the terms, linked at the end of the page'],
    PRIVACY_URL: [link(), null, 'the privacy notice, linked there too'],
    HOME_URL: [link(), null, 'where the account links if the user came without `return_to`'],
  },
  Logins: {
    // A lower cost makes guessing at stolen hashes too fast. Hashes of tests protect nothing.
    BCRYPT_COST: [integer(10, 15, 4), '12', 'each step doubles the work of a login'],
    PASSWORD_MIN_LENGTH: [
      integer(8, 64),
      '8',
      'fewest characters of a new password; 15 are recommended',
    ],
    PASSWORD_ENGINE: [choice(PASSWORD_ENGINES), 'lanes', 'what computes bcrypt (src/bcrypt/)'],
    LOGIN_TIME_MS: [
      integer(500, 5_000),
      '1000',
      'milliseconds; a login that would take longer gets 503',
    ],
    THROTTLE_PAIR_FAILURES: [budget, '5', `${inWindow} per email and client`],
    THROTTLE_EMAIL_FAILURES: [budget, '20', `${inWindow} per email`],
    THROTTLE_CLIENT_FAILURES: [budget, '50', `${inWindow} per client`],
    THROTTLE_NETWORK_FAILURES: [budget, '500', `${inWindow} per network (IPv6 /48)`],
  },
  'Second factor': {
    SECOND_FACTOR: [choice(['on', 'off']), 'on', '`off` hides it; factors in use stay demanded'],
    SECOND_FACTOR_ROLES: [roles, '', 'roles whose users get in only with a second factor'],
    PASSKEY_RP_ID: [
      anyText('host name'),
      null,
      'host of `JWT_ISSUER`, the default, or a domain above it',
    ],
  },
  Sessions: {
    MAX_SESSIONS_PER_USER: [
      integer(1, 1_000),
      '100',
      'further logins end the least recently used session',
    ],
    SESSION_IDLE_MINUTES: [integer(5, 1_440), '30', 'a cookie unused for this long is invalid'],
    SESSION_MAX_DAYS: [integer(1, 90), '30', 'a new session ends this long after its login'],
  },
  'Log and operation': {
    LOG_LEVEL: [choice(LOG_LEVELS), 'info', 'production demands `info`, `debug` or `trace`'],
    LOG_IP: [choice(['full', 'truncated', 'none']), 'full', 'addresses of clients in the log'],
    AUDIT_DAYS: [integer(0, 36_500), '0', 'days after which audit events are purged; 0 keeps them'],
    // Hashing is the bottleneck and holds no connection; a login holds one for a few milliseconds.
    DATABASE_POOL_SIZE: [integer(1, 200), '10', 'most connections of one instance to a PostgreSQL'],
    // By default it depends on whether the service runs on a terminal.
    DRAIN_DELAY_MS: [integer(0, 60_000), null, 'time to serve on after SIGTERM'],
  },
  Tests: {
    // One hour is specified. Applications need a shorter time to test what they do when it is over.
    ACCESS_TOKEN_SECONDS: [
      integer(1, ACCESS_TOKEN_SECONDS),
      `${ACCESS_TOKEN_SECONDS}`,
      'lifetime of the access tokens; another one only with `NODE_ENV=test`',
    ],
  },
} as const satisfies Record<string, Record<string, Row>>

export const VARIABLES = Object.entries(GROUPS).flatMap(([group, rows]) =>
  Object.entries<Row>(rows).map(([name, [kind, byDefault, sentence]]) => ({
    ...{ group, name, kind, byDefault, sentence },
  })),
)

/** Those in "serve --help" and docs/configuration.md; docs/integrating.md has the others. */
export const OPERATOR_VARIABLES = VARIABLES.filter(({ group }) => group !== 'Tests')

type Group = (typeof GROUPS)[keyof typeof GROUPS]
type NamesIn<G> = G extends unknown ? keyof G & string : never
/** Null: not set, and without a default. */
type ValueIn<G, Name extends string> =
  G extends Record<Name, readonly [Kind<infer T>, infer Default, string]>
    ? T | Extract<Default, null>
    : never

/** DATA_DIR is dataDir. */
type CamelCase<Name extends string> = Name extends `${infer Word}_${infer Rest}`
  ? `${Lowercase<Word>}${Capitalize<CamelCase<Rest>>}`
  : Lowercase<Name>
export type Values = { [Name in NamesIn<Group> as CamelCase<Name>]: ValueIn<Group, Name> }

export function toCamelCase(name: string): string {
  return name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
}
