import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ConfigError, loadConfig } from './config.ts'

const PRODUCTION = {
  NODE_ENV: 'production',
  TRUST_PROXY: '10.0.0.1',
  SIGNING_KEYS_FILE: '/run/keys.json',
  JWT_ISSUER: 'https://login.example.com',
}

/** The problems in production; without problems, the warnings. */
function judge(DATABASE_URL: string, env: Record<string, string> = {}): string[] {
  try {
    return [...loadConfig({ ...PRODUCTION, ...env, DATABASE_URL }).warnings]
  } catch (error) {
    assert.ok(error instanceof ConfigError)
    return error.problems
  }
}

describe('in production the connection to PostgreSQL', () => {
  for (const url of [
    ...['postgres://u@localhost/x', 'postgres://u@127.0.0.1/x', 'postgres:///x?host=/run/pg'],
    ...['postgres://u@db/x?sslmode=verify-full', 'postgres://u@db/x?sslmode=require'],
  ]) {
    test(`is accepted: ${url}`, () => {
      assert.deepEqual(judge(url), [])
    })
  }

  test('may be set by PGSSLMODE, which the driver reads too', () => {
    assert.deepEqual(judge('postgres://u@db/x', { PGSSLMODE: 'verify-full' }), [])
  })

  for (const query of ['', '?sslmode=prefer', '?sslmode=allow', '?ssl=true', '?sslmode=']) {
    test(`is refused on another machine with "${query}"`, () => {
      const [problem = '', ...others] = judge(`postgres://u:s3cret@db/login${query}`)
      assert.deepEqual(others, [])
      assert.match(problem, /^In production a database on another machine needs TLS: /)
      assert.match(problem, /sslmode=verify-full .*DATABASE_URL.*sslmode=disable/)
      assert.doesNotMatch(problem, /s3cret/)
    })
  }

  test('may be without TLS if sslmode=disable says so, with a warning', () => {
    assert.deepEqual(judge('postgres://u@db/x?sslmode=disable'), [
      'The connection to the database is not encrypted (sslmode=disable).',
    ])
  })

  test('gives a warning if it accepts any certificate', () => {
    const [warning = '', ...others] = judge('postgres://u@db/x?sslmode=no-verify')
    assert.deepEqual(others, [])
    assert.match(warning, /does not verify the server: set sslmode=verify-full/)
  })
})

test('in development any connection to PostgreSQL is accepted', () => {
  const DATABASE_URL = 'postgres://u@db/x'
  assert.deepEqual(loadConfig({ DATABASE_URL }).database, { engine: 'postgres', url: DATABASE_URL })
})
