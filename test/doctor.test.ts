// What the doctor warns of, and what it calls a problem.
import assert from 'node:assert/strict'
import { chmod, copyFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import type { Finding } from '../src/admin/doctor/finding.ts'
import { writeCertificate } from './certificates.ts'
import { type Cli, createCli, productionEnv } from './cli.ts'
import { createTestDatabase, type TestDatabase } from './engines.ts'

let database: TestDatabase
let cli: Cli
let production: Record<string, string>

before(async () => {
  database = await createTestDatabase('sqlite')
  cli = await createCli(database)
  production = await productionEnv(cli)
  assert.equal((await cli.run(['database', 'migrate'], '', production)).code, 0)
})
after(async () => {
  await cli.remove()
  await database.drop()
})

/** The files of a certificate that is valid between two days from now. */
const certificate = (name: string, fromDays: number, toDays: number) =>
  writeCertificate(cli.folder, name, { fromDays, toDays })

async function examine(env: Record<string, string>) {
  const { code, stdout, stderr } = await cli.run(['doctor', '--json'], '', env)
  const findings: Finding[] = JSON.parse(stdout)
  return { code, stderr, findings }
}

/** With these settings, production has this and nothing else to complain of. */
async function finds({ env, expected }: { env: Record<string, string>; expected: RegExp }) {
  const { code, stderr, findings } = await examine({ ...production, ...env })
  const notable = findings.filter(({ state }) => state !== 'ok')
  const said = notable.map(({ check, state, detail }) => `${state}, ${check}: ${detail}`)
  assert.match(said.join('\n'), expected)
  assert.equal(said.length, 1)
  const hasProblem = said[0]?.startsWith('problem')
  assert.equal(code, hasProblem ? 1 : 0)
  assert.equal(stderr, hasProblem ? '1 problem found.\n' : '')
}

test('a safe configuration has nothing to warn of', async () => {
  const proxies = '192.0.2.7, 10.1.2.0/24, 127.0.0.0/8, ::1, 2001:db8::/64'
  const { code, stderr, findings } = await examine({ ...production, TRUST_PROXY: proxies })
  assert.deepEqual(
    findings.filter(({ state }) => state !== 'ok'),
    [],
  )
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
})

describe('a setting that is unsafe is warned of', { concurrency: 2 }, () => {
  const cases: { name: string; env: Record<string, string>; expected: RegExp }[] = [
    {
      name: 'a misspelt variable',
      env: { TRUSTED_PROXY: '10.0.0.1' },
      expected: /^warning, configuration: TRUSTED_PROXY is not a .* Did you mean TRUST_PROXY\?$/,
    },
    {
      name: 'a proxy range that holds more than proxies',
      env: { TRUST_PROXY: '192.0.2.7, 10.0.0.0/8, 127.0.0.0/8, 198.51.100.0/24, 2001:db8::/63' },
      expected:
        /^warning, address: .*: every machine in 10\.0\.0\.0\/8, 2001:db8::\/63 can claim any client address; list the proxies alone$/,
    },
    {
      name: 'health endpoints that others reach',
      env: { OPS_HOST: '0.0.0.0' },
      expected: /^warning, health: 0\.0\.0\.0, port 9443: others can reach it/,
    },
    {
      name: 'a throttle that lets guess',
      env: { THROTTLE_EMAIL_FAILURES: '101' },
      expected: /^warning, throttle: .* 101 per email, .*: too many/,
    },
    {
      name: 'a silent log',
      env: { LOG_LEVEL: 'error' },
      expected: /^problem, configuration: In production LOG_LEVEL must be info, debug or trace/,
    },
  ]
  for (const { name, env, expected } of cases) test(name, () => finds({ env, expected }))
})

describe('a certificate is looked at before it fails', { concurrency: 2 }, () => {
  const cases: { name: string; days: [number, number]; expected: RegExp }[] = [
    { name: 'expired', days: [-9, -1], expected: /^problem, tls: .* has expired: renew it$/ },
    { name: 'not yet valid', days: [1, 9], expected: /^problem, tls: .* is not valid yet/ },
    { name: 'soon to expire', days: [-1, 9], expected: /^warning, tls: .* days left: renew it/ },
  ]
  for (const { name, days, expected } of cases) {
    test(name, async () => finds({ env: await certificate(name, ...days), expected }))
  }

  test('of another key', async () => {
    const { TLS_KEY_FILE } = await certificate('other', -1, 100)
    await finds({ env: { TLS_KEY_FILE }, expected: /^problem, tls: .* cannot be used: .*mismatch/ })
  })

  test('with a key that others can read', async () => {
    const files = await certificate('open', -1, 100)
    await chmod(files.TLS_KEY_FILE, 0o644)
    await finds({
      env: files,
      expected: /^problem, tls: others can read .*open\.key: chmod 600 it$/,
    })
  })

  test('that is not there', () =>
    finds({
      env: { TLS_CERT_FILE: '/nowhere' },
      expected: /^problem, tls: the certificate cannot be used: ENOENT/,
    }))
})

describe('signing keys are looked at', { concurrency: 2 }, () => {
  test('missing ones are a problem in production', () =>
    finds({
      env: { SIGNING_KEYS_FILE: join(cli.folder, 'missing.json') },
      expected: /^problem, keys: .*missing\.json is not there: "keys rotate" makes it$/,
    }))

  test('so are broken ones', () =>
    finds({ env: { SIGNING_KEYS_FILE: '/dev/null' }, expected: /^problem, keys: .* is not JSON$/ }))

  test('and those that others can read', async () => {
    const SIGNING_KEYS_FILE = join(cli.folder, 'open.json')
    await copyFile(production.SIGNING_KEYS_FILE ?? '', SIGNING_KEYS_FILE)
    await chmod(SIGNING_KEYS_FILE, 0o640)
    await finds({ env: { SIGNING_KEYS_FILE }, expected: /^problem, keys: others can read/ })
  })
})

describe('the database is looked at', () => {
  test('one that does not answer is a problem', () =>
    finds({
      env: { DATABASE_URL: 'postgres://ann:secret@127.0.0.1:1/login' },
      expected:
        /^problem, database: PostgreSQL postgres:\/\/ann:\*{3}@127\.0\.0\.1:1\/login cannot/,
    }))

  test('hashes that cost more than configured, or cannot be verified, are counted', async () => {
    const insert = (email: string, hash: string) =>
      database.rows(
        `insert into users (email, name, password_hash) values ('${email}', 'A', '${hash}')`,
      )
    await insert('ann@example.org', await bcrypt.hash('correct horse', 11))
    await finds({ env: {}, expected: /^warning, hashes: 1 of 1 are above BCRYPT_COST 10/ })
    await insert('bob@example.org', 'md5')
    await finds({ env: {}, expected: /^warning, hashes: 1 of 2 cannot be verified/ })
    await database.rows('delete from users')
  })

  test('a file that others can read is warned of', async () => {
    const file = join(cli.dataDir, 'login.db')
    await chmod(file, 0o644)
    await finds({ env: {}, expected: /^warning, database: others can read .*login\.db: chmod 600/ })
    await chmod(file, 0o600)
  })
})

test('a configuration that cannot be used is a problem with every reason', async () => {
  const { code, stderr, findings } = await examine({ PORT: 'x', BCRYPT_COST: '3' })
  assert.deepEqual(
    findings.map(({ check, state }) => [check, state]),
    [
      ['configuration', 'problem'],
      ['configuration', 'problem'],
    ],
  )
  assert.deepEqual({ code, stderr }, { code: 1, stderr: '2 problems found.\n' })
})

test('nothing is made: no folder, certificate, key or database', async () => {
  const DATA_DIR = join(cli.folder, 'not', 'there')
  const { code, findings } = await examine({ DATA_DIR })
  assert.equal(code, 0)
  assert.equal(
    findings.find(({ check }) => check === 'data folder')?.detail,
    `${DATA_DIR}, made at the first start`,
  )
  assert.ok(!(await readdir(cli.folder)).includes('not'))
})

test('a logo that cannot be served is a problem', () =>
  finds({
    env: { BRAND_LOGO_FILE: '/dev/null' },
    expected: /^problem, logo: BRAND_LOGO_FILE cannot be used: \/dev\/null is neither SVG/,
  }))

test('a data folder that is none is a problem', async () => {
  const { code, findings } = await examine({ DATA_DIR: '/dev/null' })
  assert.equal(code, 1)
  assert.match(
    findings.find(({ check }) => check === 'data folder')?.detail ?? '',
    /^\/dev\/null is not a folder: set DATA_DIR/,
  )
})
