// The warnings and problems that the doctor finds.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmod, copyFile, readdir, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { TLSSocket } from 'node:tls'
import bcrypt from 'bcrypt'
import type { Finding } from '../../src/system/finding.ts'
import { makeCertificate, writeCertificate } from '../support/certificates.ts'
import { setUpCli } from '../support/cli.ts'
import { setUpDoctor } from './doctor.ts'

const { database, cli, production, examine } = await setUpDoctor()
assert.equal((await cli.run(['database', 'migrate'], '', production)).code, 0)

/** Writes a certificate with this validity, in days from now. */
const certificate = (name: string, fromDays: number, toDays: number) =>
  writeCertificate(cli.folder, name, { fromDays, toDays })

/** Fails unless these settings, in production, cause exactly this one finding. */
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

test('a safe configuration has no warning and no problem', async () => {
  const proxies = '192.0.2.7, 10.1.2.0/24, 127.0.0.0/8, ::1, 2001:db8::/64'
  const { code, stderr, findings } = await examine({ ...production, TRUST_PROXY: proxies })
  assert.deepEqual(
    findings.filter(({ state }) => state !== 'ok'),
    [],
  )
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
})

describe('what is unsafe or cannot be used is a warning or a problem', { concurrency: 2 }, () => {
  type Env = Record<string, string>
  const cases: [name: string, env: Env | (() => Promise<Env>), expected: RegExp][] = [
    [
      'a misspelt variable',
      { TRUSTED_PROXY: '10.0.0.1' },
      /^warning, configuration: TRUSTED_PROXY is not a .* Did you mean TRUST_PROXY\?$/,
    ],
    [
      'a proxy range that is too wide',
      { TRUST_PROXY: '192.0.2.7, 10.0.0.0/8, 127.0.0.0/8, 198.51.100.0/24, 2001:db8::/63' },
      /^warning, address: .*: every machine in 10\.0\.0\.0\/8, 2001:db8::\/63 can claim any client address; list the proxies alone$/,
    ],
    [
      'a proxy that sends passwords over a network without TLS',
      { HOST: '0.0.0.0', TRUST_PROXY: '192.0.2.7', TLS_CERT_FILE: '', TLS_KEY_FILE: '' },
      /^warning, configuration: With HOST=0\.0\.0\.0 the proxy sends .* unencrypted/,
    ],
    [
      'health endpoints that other machines can reach',
      { OPS_HOST: '0.0.0.0' },
      /^warning, health: 0\.0\.0\.0, port 9443: others can reach it/,
    ],
    [
      'one port for two servers',
      { PORT: '9443' },
      /^problem, configuration: PORT and OPS_PORT are both 9443: choose two ports\.$/,
    ],
    [
      'a throttle that allows too many guesses',
      { THROTTLE_EMAIL_FAILURES: '101' },
      /^warning, throttle: .* 101 per email, .*: too many/,
    ],
    [
      'a log level that hides logins',
      { LOG_LEVEL: 'error' },
      /^problem, configuration: In production LOG_LEVEL must be info, debug or trace/,
    ],
    [
      'a logo that cannot be served',
      { BRAND_LOGO_FILE: '/dev/null' },
      /^problem, logo: BRAND_LOGO_FILE cannot be used: \/dev\/null is neither SVG/,
    ],
    [
      'a database server that does not answer, whose password is hidden',
      { DATABASE_URL: 'postgres://ann:secret@127.0.0.1:1/login' },
      /^problem, database: PostgreSQL postgres:\/\/ann:\*{3}@127\.0\.0\.1:1\/login cannot/,
    ],
    [
      'an expired certificate',
      () => certificate('expired', -9, -1),
      /^problem, tls: .* expired on 2.*: renew it$/,
    ],
    [
      'a certificate that is not valid yet',
      () => certificate('early', 1, 9),
      /^problem, tls: .* is not valid before 2/,
    ],
    [
      'a certificate that soon expires',
      () => certificate('late', -1, 9),
      /^warning, tls: .* days left: renew it/,
    ],
    [
      'the key of another certificate',
      async () => ({ TLS_KEY_FILE: (await certificate('other', -1, 100)).TLS_KEY_FILE }),
      /^problem, tls: .* cannot be used: .*mismatch/,
    ],
    [
      'a key of a certificate that others can read',
      async () => {
        const files = await certificate('open', -1, 100)
        await chmod(files.TLS_KEY_FILE, 0o644)
        return files
      },
      /^problem, tls: .*open\.key can be read by others or changed by its group: chmod 600/,
    ],
    [
      'a certificate for another name than the public address',
      () => certificate('localhost', -1, 100),
      /^warning, tls: certificate for .*localhost.*, but JWT_ISSUER names login\.example\.org/,
    ],
    [
      'a missing certificate',
      { TLS_CERT_FILE: '/nowhere' },
      /^problem, tls: the certificate cannot be used: ENOENT/,
    ],
    [
      'a missing key file',
      { SIGNING_KEYS_FILE: join(cli.folder, 'missing.json') },
      /^problem, keys: There is no key file .*missing\.json\. .* "keys rotate" to make it$/,
    ],
    [
      'a key file that is not JSON',
      { SIGNING_KEYS_FILE: '/dev/null' },
      /^problem, keys: .* is not JSON\. Restore/,
    ],
    [
      'a key file that others can read',
      async () => {
        const SIGNING_KEYS_FILE = join(cli.folder, 'open.json')
        await copyFile(production.SIGNING_KEYS_FILE ?? '', SIGNING_KEYS_FILE)
        await chmod(SIGNING_KEYS_FILE, 0o660)
        return { SIGNING_KEYS_FILE }
      },
      /^problem, keys: .* changed by its group/,
    ],
  ]
  for (const [name, env, expected] of cases) {
    test(name, async () => finds({ env: typeof env === 'function' ? await env() : env, expected }))
  }
})

test('a key of the last rotation that the file lacks is a warning', async () => {
  const elsewhere = { ...production, SIGNING_KEYS_FILE: join(cli.folder, 'elsewhere.json') }
  assert.equal((await cli.run(['keys', 'rotate'], '', elsewhere)).code, 0)
  await finds({
    env: {},
    expected:
      /^warning, keys: .*keys\.json lacks the key \S+ and \S+, which the audit has: copy the/,
  })
  const { findings } = await examine(elsewhere)
  assert.ok(findings.every(({ state }) => state === 'ok'))
  await database.rows('delete from audit_events')
})

test('a password in an .env that others can read is a problem', async () => {
  const file = join(cli.folder, '.env')
  for (const [text, mode, expected] of [
    ['PGPASSWORD=secret', 0o644, /^problem, password: \.env can be read by others/],
    ['HELP_TEXT=Ask', 0o644, null],
    ['PGPASSWORD=secret', 0o600, null],
  ] as const) {
    await writeFile(file, `${text}\n`)
    await chmod(file, mode)
    if (expected) await finds({ env: {}, expected })
    else assert.ok((await examine(production)).findings.every(({ state }) => state === 'ok'))
  }
  await rm(file)
})

describe('the database is checked', () => {
  test('a certificate of an unknown CA: sslrootcert is suggested', async t => {
    const { cert, key } = await makeCertificate()
    // The server's answer to a request for TLS is one letter; then the handshake begins.
    const server = createServer(socket => {
      socket
        .on('error', () => {})
        .once('data', () => {
          socket.write('S')
          new TLSSocket(socket, { isServer: true, cert, key }).on('error', () => {})
        })
    })
    t.after(() => server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    await finds({
      env: { DATABASE_URL: `postgres://ann@localhost:${port}/login?sslmode=verify-full` },
      expected:
        /^problem, database: .* self-signed certificate.* add sslrootcert=FILE .* to DATABASE_URL/,
    })
  })

  test('a pool that is larger than PostgreSQL allows is a warning', async t => {
    const other = await setUpCli('postgres', t)
    const role = `few_${randomUUID().replaceAll('-', '')}`
    await other.database.rows(`create role ${role} superuser login connection limit 5`)
    const { DATABASE_URL = '' } = other.env
    const asRole = DATABASE_URL.replace(/\/\/[^@]*@/, `//${role}@`)
    const poolOf = async (env: Record<string, string>) => {
      const { stdout } = await other.run(['doctor', '--json'], '', env)
      const findings: Finding[] = JSON.parse(stdout)
      return findings.find(({ check }) => check === 'database pool')?.detail
    }
    assert.match(
      (await poolOf({ DATABASE_URL: asRole })) ?? '',
      /^DATABASE_POOL_SIZE is 10, but PostgreSQL allows this role 5 connections: lower it/,
    )
    assert.equal(await poolOf({ DATABASE_URL: asRole, DATABASE_POOL_SIZE: '5' }), undefined)
    assert.equal(await poolOf({ DATABASE_POOL_SIZE: '200' }), undefined)
    await other.database.rows(`drop role ${role}`)
  })

  test('hashes above the configured cost and hashes that cannot be verified are counted', async () => {
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

  test('a database file that others can read is a warning', async () => {
    const file = join(cli.dataDir, 'login.db')
    await chmod(file, 0o644)
    await finds({ env: {}, expected: /^warning, database: .*login\.db can be read by others/ })
    await chmod(file, 0o600)
  })
})

test('each invalid variable is a problem of its own', async () => {
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

test('the doctor does not create the data folder, nor anything in it', async () => {
  const DATA_DIR = join(cli.folder, 'not', 'there')
  const { code, findings } = await examine({ DATA_DIR })
  assert.equal(code, 0)
  assert.equal(
    findings.find(({ check }) => check === 'data folder')?.detail,
    `${DATA_DIR}, made at the first start`,
  )
  assert.ok(!(await readdir(cli.folder)).includes('not'))
})

test('a data folder that is not a folder is a problem', async () => {
  const { code, findings } = await examine({ DATA_DIR: '/dev/null' })
  assert.equal(code, 1)
  assert.match(
    findings.find(({ check }) => check === 'data folder')?.detail ?? '',
    /cannot be made: \/dev\/null is not a folder\. Set DATA_DIR/,
  )
})

describe('no admin token, or one with an end that is near, past or too far, is a warning', () => {
  const DAY_MS = 24 * 3_600_000
  const cases: [name: string, endsInDays: number | null, expected: RegExp | null][] = [
    ['none', null, /^warning, admin tokens: there is no admin token yet: run "admin-tokens add"$/],
    ['past its end', -1, /^warning, admin tokens: the token one ended at 2.*: add another one/],
    ['near its end', 13.9, /^warning, admin tokens: the token one ends at 2/],
    ['far from its end', 14.1, null],
    ['with an end that a wrong clock gave it', 368, /^warning, admin tokens: the token one ends/],
  ]
  for (const [name, days, expected] of cases) {
    test(name, async () => {
      await database.rows('delete from admin_tokens')
      const end = new Date(Date.now() + (days ?? 0) * DAY_MS).toISOString()
      if (days !== null) {
        await database.rows(`insert into admin_tokens (name, digest, role, created_at, expires_at)
          values ('one', '${'0'.repeat(64)}', 'read', '${end}', '${end}')`)
      }
      const env = { ADMIN_PORT: '8444' }
      if (expected) return finds({ env, expected })
      const { findings } = await examine({ ...production, ...env })
      assert.deepEqual(
        findings.filter(({ state }) => state !== 'ok'),
        [],
      )
    })
  }
})
