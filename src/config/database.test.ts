import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { describeDatabase } from '../storage/open-store.ts'
import { ConfigError, loadConfig } from './config.ts'

const PRODUCTION = {
  NODE_ENV: 'production',
  TRUST_PROXY: '10.0.0.1',
  SIGNING_KEYS_FILE: '/run/keys.json',
  JWT_ISSUER: 'https://login.example.com',
}

/** The problems, by default in production; without problems, the warnings. */
function judge(DATABASE_URL: string, env: Record<string, string> = PRODUCTION): string[] {
  try {
    return [...loadConfig({ ...env, DATABASE_URL }).warnings]
  } catch (error) {
    assert.ok(error instanceof ConfigError)
    return error.problems
  }
}

describe('in production the connection to PostgreSQL', () => {
  for (const query of ['', '?sslmode=prefer', '?sslmode=allow', '?ssl=true', '?sslmode=']) {
    test(`is refused on another machine with "${query}"`, () => {
      const [problem = '', ...others] = judge(`postgres://u:s3cret@db/login${query}`)
      assert.deepEqual(others, [])
      assert.match(problem, /^In production a database on another machine needs TLS: /)
      assert.match(problem, /sslmode=verify-full .*DATABASE_URL.*sslmode=disable/)
      assert.doesNotMatch(problem, /s3cret/)
    })
  }

  test('is judged for each host', () => {
    assert.deepEqual(judge('postgres://u@localhost:5432,127.0.0.1,[::1]:5433/x'), [])
    assert.deepEqual(judge('postgres://u@db1:5432,db2:5432/x?sslmode=verify-full'), [])
    const [problem = '', ...others] = judge('postgres://u:s3cret@localhost,db1:5432,[fd00::1]/x')
    assert.deepEqual(others, [])
    assert.match(problem, /^In production a database on another machine needs TLS: /)
    assert.equal(judge('postgres://localhost,db1,db2/x?sslmode=disable').length, 1)
  })

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

describe('an address of several hosts', () => {
  for (const [url, described] of [
    ['postgres://a:5432,b:5433/login', 'postgres://a:5432,b:5433/login'],
    [
      'postgres://ann:p,w%40@a,b/login?target_session_attrs=read-write',
      'postgres://ann:***@a,b/login',
    ],
    [
      'postgresql://ann:x:y@[::1]:5432,[fd00::2]/login',
      'postgresql://ann:***@[::1]:5432,[fd00::2]/login',
    ],
    ['postgres://ann@a,b:1', 'postgres://ann@a,b:1'],
  ] as const) {
    test(`is accepted, and described without its password: ${url}`, () => {
      assert.equal(
        describeDatabase(loadConfig({ DATABASE_URL: url }).database),
        `PostgreSQL ${described}`,
      )
    })
  }

  for (const [url, problem] of [
    ['postgres://ann:s3cret@a:5432,b:none/login', /must look like .*host1:5432,host2:5432/],
    ['postgres://ann:s3cret@a,,b/login', /must look like/],
    ['postgres://ann:s3cret@a,:5432/login', /must look like/],
    ['postgres:///login?host=a,b&password=s3cret', /must name several hosts before the name/],
    ['postgres://a:1/login?port=1,2&password=s3cret', /must name several hosts before the name/],
    [
      'postgres://ann:s3cret@a/x?target_session_attrs=any',
      /target_session_attrs must be read-write/,
    ],
    ['postgres://ann:s3cret@a,b/x?target_session_attrs=standby', /must be read-write/],
  ] as const) {
    test(`is refused, without its password in the message: ${url}`, () => {
      const [found = '', ...others] = judge(url, {})
      assert.match(found, problem)
      assert.doesNotMatch(found, /s3cret/)
      assert.deepEqual(others, [])
    })
  }
})

test('DATABASE_POOL_SIZE has limits; removed variables are warned of', () => {
  const removed = { DATABASE_POOLER: 'transaction', ADMIN_TOKENS_FILE: 'tokens.json' }
  const env = { DATABASE_URL: 'postgres://u@localhost/x', ...removed }
  const { database, warnings } = loadConfig({ ...env, DATABASE_POOL_SIZE: '200' })
  assert.deepEqual(database, { engine: 'postgres', url: env.DATABASE_URL, poolSize: 200 })
  const warned = Object.keys(removed).map(
    name => `${name} is not a variable of this service and has no effect.`,
  )
  assert.deepEqual(warnings, warned)
  assert.throws(
    () => loadConfig({ ...env, DATABASE_POOL_SIZE: '0' }),
    /DATABASE_POOL_SIZE must be a whole number from 1 to 200/,
  )
})
