import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import pg from 'pg'
import { decideEncryption, type Encryption } from './postgres-tls.ts'

// The driver warns of modes that its next version will read in another way. Such modes are cases here.
mock.method(process, 'emitWarning', () => {})

type Case = [url: string, expected: Encryption, env?: Record<string, string>]

const CASES: Case[] = [
  ['postgres://u@localhost/login', 'local'],
  ['postgres://u@127.0.0.1/login', 'local'],
  ['postgres://u@127.1.2.3/login?sslmode=prefer', 'local'],
  ['postgres://u@[::1]:5432/login', 'local'],
  ['postgres:///login', 'local'],
  ['postgres://%2Fvar%2Frun%2Fpostgresql/login', 'local'],
  ['postgres:///login?host=/var/run/postgresql', 'local'],
  ['postgres://db/login?host=127.0.0.1', 'local'],
  ['postgres:///login', 'local', { PGHOST: '/run/postgresql' }],
  ['postgres://db/login', 'unstated'],
  ['postgres://[fd00::1]/login', 'unstated'],
  ['postgres://127.example.com/login', 'unstated'],
  ['postgres://localhost.example.com/login', 'unstated'],
  ['postgres://%zz/login', 'unstated'],
  ['postgres://localhost/login?host=db', 'unstated'],
  ['postgres://localhost/login?host=127.0.0.1&host=db', 'unstated'],
  ['postgres:///login', 'unstated', { PGHOST: 'db' }],
  ['postgres://db/login?sslmode=', 'unstated'],
  ['postgres://db/login?sslmode=prefer', 'unstated'],
  ['postgres://db/login?sslmode=Require', 'unstated'],
  ['postgres://db/login?sslmode=verify-full&sslmode=prefer', 'unstated'],
  ['postgres://db/login?ssl=0', 'unstated'],
  ['postgres://db/login?ssl=0', 'unstated', { PGSSLMODE: 'verify-full' }],
  ['postgres://db/login?ssl=true', 'unstated'],
  ['postgres://db/login', 'unstated', { PGSSLMODE: ' require' }],
  ['postgres://db/login?sslmode=prefer', 'unstated', { PGSSLMODE: 'verify-full' }],
  ['postgres://db/login?sslmode=no-verify&uselibpqcompat=true', 'unstated'],
  ['postgres://db/login?sslmode=verify-full', 'verified'],
  ['postgres://db/login?sslmode=verify-ca', 'verified'],
  ['postgres://db/login?sslmode=require', 'verified'],
  ['postgres://db/login?ssl=0&sslmode=require', 'verified'],
  ['postgres://db/login', 'verified', { PGSSLMODE: 'verify-full' }],
  ['postgres://db/login?sslmode=', 'verified', { PGSSLMODE: 'require' }],
  ['postgres://db/login?sslmode=disable&sslmode=verify-full', 'verified'],
  ['postgres://db/login?sslmode=no-verify', 'unverified'],
  ['postgres://db/login', 'unverified', { PGSSLMODE: 'no-verify' }],
  ['postgres://db/login?sslmode=require&uselibpqcompat=true', 'unverified'],
  ['postgres://db/login?sslmode=disable', 'plain'],
  ['postgres://db/login', 'plain', { PGSSLMODE: 'disable' }],
  ['postgres://db/login?sslmode=disable', 'plain', { PGSSLMODE: 'verify-full' }],
]

describe('how a connection to PostgreSQL is encrypted', () => {
  for (const [url, expected, env = {}] of CASES) {
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
