import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import pg from 'pg'
import { decideEncryption, type Encryption } from './postgres-tls.ts'

// The driver warns of modes that its next version will read in another way. Such modes are cases here.
mock.method(process, 'emitWarning', () => {})

/** Addresses after `postgres://`, some with PGHOST or PGSSLMODE in the environment. */
const CASES: Record<Encryption, (string | [address: string, env: Record<string, string>])[]> = {
  local: [
    ...['u@localhost/login', 'u@127.0.0.1/login', 'u@127.1.2.3/login?sslmode=prefer'],
    ...['u@[::1]:5432/login', '/login', '%2Fvar%2Frun%2Fpostgresql/login'],
    ...['/login?host=/var/run/postgresql', 'db/login?host=127.0.0.1'],
    ['/login', { PGHOST: '/run/postgresql' }],
  ],
  unstated: [
    ...['db/login', '[fd00::1]/login', '127.example.com/login', 'localhost.example.com/login'],
    ...['%zz/login', 'localhost/login?host=db', 'localhost/login?host=127.0.0.1&host=db'],
    ...['db/login?sslmode=', 'db/login?sslmode=prefer', 'db/login?sslmode=Require'],
    ...['db/login?sslmode=verify-full&sslmode=prefer', 'db/login?ssl=0', 'db/login?ssl=true'],
    'db/login?sslmode=no-verify&uselibpqcompat=true',
    ['/login', { PGHOST: 'db' }],
    ['db/login?ssl=0', { PGSSLMODE: 'verify-full' }],
    ['db/login', { PGSSLMODE: ' require' }],
    ['db/login?sslmode=prefer', { PGSSLMODE: 'verify-full' }],
  ],
  verified: [
    ...['db/login?sslmode=verify-full', 'db/login?sslmode=verify-ca', 'db/login?sslmode=require'],
    ...['db/login?ssl=0&sslmode=require', 'db/login?sslmode=disable&sslmode=verify-full'],
    ['db/login', { PGSSLMODE: 'verify-full' }],
    ['db/login?sslmode=', { PGSSLMODE: 'require' }],
  ],
  unverified: [
    ...['db/login?sslmode=no-verify', 'db/login?sslmode=require&uselibpqcompat=true'],
    ['db/login', { PGSSLMODE: 'no-verify' }],
  ],
  plain: [
    'db/login?sslmode=disable',
    ['db/login', { PGSSLMODE: 'disable' }],
    ['db/login?sslmode=disable', { PGSSLMODE: 'verify-full' }],
  ],
}

describe('how a connection to PostgreSQL is encrypted', () => {
  const cases = Object.entries(CASES).flatMap(([expected, cases]) =>
    cases.map(it => [expected, ...(typeof it === 'string' ? ([it, {}] as const) : it)] as const),
  )
  for (const [expected, address, env] of cases) {
    const url = `postgres://${address}`
    test(`${expected}: ${url} ${JSON.stringify(env)}`, () => {
      assert.equal(decideEncryption(url, env), expected)
      if (expected !== 'unstated') assert.equal(encryptionByDriver(url, env), expected)
    })
  }
})

/** What the driver itself decides, read from a client that has not connected. */
function encryptionByDriver(connectionString: string, env: Record<string, string>): Encryption {
  const { PGHOST = '', PGSSLMODE = '' } = process.env
  Object.assign(process.env, { PGHOST: '', PGSSLMODE: '' }, env)
  try {
    const { host, ssl }: { host: string; ssl?: unknown } = new pg.Client({ connectionString })
    const isLocal = /^(\/|localhost|127\.[\d.]+$|::1$)/i.test(host)
    if (isLocal) return 'local'
    if (!ssl) return 'plain'
    const isUnverified =
      typeof ssl === 'object' && 'rejectUnauthorized' in ssl && ssl.rejectUnauthorized === false
    return isUnverified ? 'unverified' : 'verified'
  } finally {
    Object.assign(process.env, { PGHOST, PGSSLMODE })
  }
}
