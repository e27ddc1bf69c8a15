// The environment variables of the service.

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export const PASSWORD_ENGINES = ['lanes', 'native'] as const

/** Every variable that the service reads, with its default and meaning. The README shows this table. */
export const VARIABLES = {
  NODE_ENV: { byDefault: 'development', meaning: '`production` refuses unsafe settings' },
  HOST: { byDefault: '127.0.0.1', meaning: 'address to listen on' },
  PORT: { byDefault: '8443', meaning: 'port to listen on' },
  OPS_HOST: { byDefault: '127.0.0.1', meaning: 'address of the health endpoints' },
  OPS_PORT: { byDefault: '9443', meaning: 'port of the health endpoints; 0 turns them off' },
  ADMIN_HOST: { byDefault: '127.0.0.1', meaning: 'address of the admin API' },
  ADMIN_PORT: {
    byDefault: '0',
    meaning: 'port of the admin API (docs/admin-api.md); 0 turns it off',
  },
  ADMIN_TOKENS_FILE: {
    byDefault: 'DATA_DIR/admin-tokens.json',
    meaning: 'digests of the tokens for the admin API; `admin-tokens add` creates it',
  },
  DATA_DIR: { byDefault: './data', meaning: 'folder of the files that the service creates' },
  DATABASE_URL: {
    byDefault: '',
    meaning:
      '`postgres://…`, with `sslmode=verify-full` if it is on another machine; several hosts as `postgres://a:5432,b:5432/…`; if not set, SQLite in `DATA_DIR/login.db`',
  },
  DATABASE_POOL_SIZE: {
    byDefault: '10',
    meaning: '1 to 200; most connections of one instance to a PostgreSQL server',
  },
  DATABASE_POOLER: {
    byDefault: '',
    meaning: '`transaction` if PgBouncer in transaction mode is in between (docs/operations.md)',
  },
  TLS_CERT_FILE: { byDefault: '', meaning: 'certificate chain, PEM' },
  TLS_KEY_FILE: { byDefault: '', meaning: 'private key of the certificate, PEM' },
  TRUST_PROXY: {
    byDefault: '',
    meaning: 'addresses or CIDR networks (comma-separated) of the TLS proxies in front',
  },
  CORS_ORIGINS: {
    byDefault: '',
    meaning: 'origins (comma-separated) whose pages may call the service and log in',
  },
  RETURN_TO_ORIGINS: {
    byDefault: '',
    meaning: 'origins (comma-separated) to which the page may send the user after a login',
  },
  BRAND_NAME: { byDefault: 'Login Service', meaning: 'name at the top of the page' },
  BRAND_LOGO_FILE: {
    byDefault: '',
    meaning: 'logo of the page: SVG, PNG, WebP or JPEG of at most 64 KiB',
  },
  BRAND_COLOR: { byDefault: '#3451b2', meaning: 'colour of the buttons, as `#rgb` or `#rrggbb`' },
  HELP_TEXT: {
    byDefault: '',
    meaning: 'text under the form, at most 200 characters, instead of "Ask your administrator."',
  },
  HELP_URL: {
    byDefault: '',
    meaning: '`https:`, `mailto:` or `tel:` address to which this text is a link',
  },
  TERMS_URL: { byDefault: '', meaning: 'address of the terms, linked at the end of the page' },
  PRIVACY_URL: { byDefault: '', meaning: 'address of the privacy notice, linked there too' },
  HOME_URL: {
    byDefault: '',
    meaning: 'address to which the account links if the user came without `return_to`',
  },
  SIGNING_KEYS_FILE: {
    byDefault: 'DATA_DIR/signing-keys.json',
    meaning: 'private JWK Set; required in production',
  },
  JWT_ISSUER: {
    byDefault: 'https://localhost:PORT',
    meaning:
      '`iss` of the tokens, an https URL (outside production also `http://localhost…`); required in production',
  },
  JWT_AUDIENCE: { byDefault: 'the issuer', meaning: '`aud` of the access tokens' },
  ACCESS_TOKEN_SECONDS: {
    byDefault: '3600',
    meaning: '1 to 3600; lifetime of the access tokens, only with `NODE_ENV=test`',
  },
  BCRYPT_COST: {
    byDefault: '12',
    meaning: '10 to 15 (from 4 with `NODE_ENV=test`); each step doubles the work of a login',
  },
  PASSWORD_ENGINE: {
    byDefault: 'lanes',
    meaning:
      '`lanes` verifies several passwords at a time per core (src/bcrypt/README.md); `native` uses npm bcrypt',
  },
  LOGIN_TIME_MS: {
    byDefault: '1000',
    meaning:
      '500 to 5000 milliseconds; a login that would take longer is answered with 503 at once',
  },
  THROTTLE_PAIR_FAILURES: {
    byDefault: '5',
    meaning: 'failures in 15 minutes per email and client',
  },
  THROTTLE_EMAIL_FAILURES: { byDefault: '20', meaning: 'failures in 15 minutes per email' },
  THROTTLE_CLIENT_FAILURES: { byDefault: '50', meaning: 'failures in 15 minutes per client' },
  THROTTLE_NETWORK_FAILURES: {
    byDefault: '500',
    meaning: 'failures in 15 minutes per network (IPv6 /48)',
  },
  MAX_SESSIONS_PER_USER: {
    byDefault: '100',
    meaning: '1 to 1000 live sessions; a login beyond them ends the least recently used one',
  },
  DRAIN_DELAY_MS: {
    byDefault: '2000',
    meaning:
      '0 to 60000 milliseconds after SIGTERM in which `/readyz` answers 503 and requests are still served; by default 0 on a terminal',
  },
  LOG_LEVEL: { byDefault: 'info', meaning: `one of ${LOG_LEVELS.join(', ')}` },
} satisfies Record<string, { byDefault: string; meaning: string }>

export type Variable = keyof typeof VARIABLES
