// The environment for people: every name, its default and its meaning.

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

/** Every variable that the service reads, with its default and meaning, as the README shows them. */
export const VARIABLES: Record<string, { byDefault: string; meaning: string }> = {
  NODE_ENV: { byDefault: 'development', meaning: '`production` refuses what is unsafe' },
  HOST: { byDefault: '127.0.0.1', meaning: 'address to listen on' },
  PORT: { byDefault: '8443', meaning: 'port to listen on' },
  OPS_HOST: { byDefault: '127.0.0.1', meaning: 'address of the health endpoints' },
  OPS_PORT: { byDefault: '9443', meaning: 'port of the health endpoints; 0 turns them off' },
  DATA_DIR: { byDefault: './data', meaning: 'folder of what the service makes by itself' },
  DATABASE_URL: {
    byDefault: '',
    meaning:
      '`postgres://…`, with `sslmode=verify-full` for another machine; without it SQLite in `DATA_DIR/login.db`',
  },
  TLS_CERT_FILE: { byDefault: '', meaning: 'certificate chain, PEM' },
  TLS_KEY_FILE: { byDefault: '', meaning: 'its private key, PEM' },
  TRUST_PROXY: {
    byDefault: '',
    meaning: 'addresses (CIDR, comma-separated) of the TLS proxies in front',
  },
  CORS_ORIGINS: {
    byDefault: '',
    meaning: 'origins (comma-separated) that browsers may call, and log in, from',
  },
  RETURN_TO_ORIGINS: {
    byDefault: '',
    meaning: 'origins (comma-separated) that the page may go on to after a login',
  },
  BRAND_NAME: { byDefault: 'Login Service', meaning: 'what the page is headed with' },
  BRAND_LOGO_FILE: {
    byDefault: '',
    meaning: 'its logo: SVG, PNG, WebP or JPEG of at most 64 KiB',
  },
  BRAND_COLOR: { byDefault: '#3451b2', meaning: 'colour of its buttons, as `#rgb` or `#rrggbb`' },
  SIGNING_KEYS_FILE: {
    byDefault: 'DATA_DIR/signing-keys.json',
    meaning: 'private JWK Set; demanded in production',
  },
  JWT_ISSUER: {
    byDefault: 'https://localhost:PORT',
    meaning: '`iss` of the tokens, an https URL; demanded in production',
  },
  JWT_AUDIENCE: { byDefault: 'the issuer', meaning: '`aud` of the access tokens' },
  BCRYPT_COST: { byDefault: '12', meaning: '10 to 15; each step doubles the work of a login' },
  LOGIN_TIME_MS: {
    byDefault: '1000',
    meaning: '500 to 5000 milliseconds; a login that would take longer is answered 503 at once',
  },
  THROTTLE_PAIR_FAILURES: {
    byDefault: '5',
    meaning: 'failures in 15 minutes per e-mail and client',
  },
  THROTTLE_EMAIL_FAILURES: { byDefault: '20', meaning: 'failures in 15 minutes per e-mail' },
  THROTTLE_CLIENT_FAILURES: { byDefault: '50', meaning: 'failures in 15 minutes per client' },
  THROTTLE_NETWORK_FAILURES: {
    byDefault: '500',
    meaning: 'failures in 15 minutes per network (IPv6 /48)',
  },
  MAX_SESSIONS_PER_USER: {
    byDefault: '100',
    meaning: '1 to 1000 live sessions; a login beyond them ends the least recently used',
  },
  LOG_LEVEL: { byDefault: 'info', meaning: `one of ${LOG_LEVELS.join(', ')}` },
}
