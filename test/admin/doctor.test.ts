// The warnings and problems that the doctor finds.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmod, copyFile, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { TLSSocket } from 'node:tls'
import bcrypt from 'bcrypt'
import type { JWK } from 'jose'
import { makeCertificate, writeCertificate } from '../support/certificates.ts'
import { setUpCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { addPasskey, createPasskey } from '../support/passkey.ts'
import { detailOf, setUpDoctor } from './doctor.ts'

const { cli, production, examine } = await setUpDoctor()
const { database } = cli
assert.equal((await cli.run(['database', 'migrate'], '', production)).code, 0)

/** Writes a certificate with this validity, in days from now. */
const certificate = (name: string, fromDays: number, toDays: number) =>
  writeCertificate(cli.folder, name, { fromDays, toDays })

/** Names a file with other keys than those of the production. */
async function changedKeys(change: (keys: JWK[]) => JWK[]) {
  const { keys } = JSON.parse(await readFile(production.SIGNING_KEYS_FILE ?? '', 'utf8'))
  const SIGNING_KEYS_FILE = join(cli.folder, `${randomUUID()}.json`)
  await writeFile(SIGNING_KEYS_FILE, JSON.stringify({ keys: change(keys) }), { mode: 0o600 })
  return { SIGNING_KEYS_FILE }
}
const withoutEncryptionKey = () => changedKeys(keys => keys.filter(key => key.use !== 'enc'))

const CONSOLE = {
  ...{ ADMIN_PORT: '8444', ADMIN_ROLES: 'admin', HELPDESK_ROLES: 'desk' },
  ADMIN_ORIGIN: 'https://console.example.org',
}

/** Fails unless these settings, in production, cause exactly these findings. */
async function finds(env: Record<string, string>, ...expected: RegExp[]) {
  const { code, stderr, findings } = await examine({ ...production, ...env })
  const notable = findings.filter(({ state }) => state !== 'ok')
  const said = notable.map(({ check, state, detail }) => `${state}, ${check}: ${detail}`)
  assert.equal(said.length, expected.length, said.join('\n'))
  for (const [i, pattern] of expected.entries()) assert.match(said[i] ?? '', pattern)
  const problems = notable.filter(({ state }) => state === 'problem').length
  assert.equal(code, problems > 0 ? 1 : 0)
  const counted = problems === 1 ? '1 problem' : `${problems} problems`
  assert.equal(stderr, problems > 0 ? `${counted} found.\n` : '')
}

test('a safe configuration has no warning and no problem', () =>
  finds({ TRUST_PROXY: '192.0.2.7, 10.1.2.0/24, 127.0.0.0/8, ::1, 2001:db8::/64' }))

describe('what is unsafe or cannot be used is a warning or a problem', () => {
  type Env = Record<string, string>
  const cases: [name: string, env: Env | (() => Promise<Env>), ...expected: RegExp[]][] = [
    [
      'a misspelt variable, a proxy range that is too wide, an open port and too many guesses',
      {
        TRUSTED_PROXY: '10.0.0.1',
        TRUST_PROXY: '192.0.2.7, 10.0.0.0/8, 127.0.0.0/8, 198.51.100.0/24, 2001:db8::/63',
        OPS_HOST: '0.0.0.0',
        THROTTLE_EMAIL_FAILURES: '101',
      },
      /^warning, configuration: TRUSTED_PROXY is not a .* Did you mean TRUST_PROXY\?$/,
      /^warning, address: .*: every machine in 10\.0\.0\.0\/8, 2001:db8::\/63 can claim any client address; list the proxies alone$/,
      /^warning, health: 0\.0\.0\.0, port 9443: others can reach it/,
      /^warning, throttle: .* 101 per email, .*: too many/,
    ],
    [
      'a proxy that sends passwords over a network without TLS',
      { HOST: '0.0.0.0', TRUST_PROXY: '192.0.2.7', TLS_CERT_FILE: '', TLS_KEY_FILE: '' },
      /^warning, configuration: With HOST=0\.0\.0\.0 the proxy sends .* unencrypted/,
    ],
    [
      'one port for two servers, and a log level that hides logins',
      { PORT: '9443', LOG_LEVEL: 'error' },
      /^problem, configuration: In production LOG_LEVEL must be info, debug or trace/,
      /^problem, configuration: PORT and OPS_PORT are both 9443: choose two ports\.$/,
    ],
    [
      'files that cannot be used, and a database server that does not answer, whose password is hidden',
      {
        ...{ TLS_CERT_FILE: '/nowhere', SIGNING_KEYS_FILE: '/dev/null' },
        ...{ BRAND_LOGO_FILE: '/dev/null' },
        DATABASE_URL: 'postgres://ann:secret@127.0.0.1:1/login',
      },
      /^problem, tls: the certificate cannot be used: ENOENT/,
      /^problem, keys: .* is not JSON\. Restore/,
      /^problem, logo: BRAND_LOGO_FILE cannot be used: \/dev\/null is neither SVG/,
      /^problem, database: PostgreSQL postgres:\/\/ann:\*{3}@127\.0\.0\.1:1\/login cannot/,
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
      'a missing key file',
      { SIGNING_KEYS_FILE: join(cli.folder, 'missing.json') },
      /^problem, keys: There is no key file .*missing\.json\. .* "keys rotate" to make it$/,
    ],
    [
      'a long issuer beside a secret with a long id',
      async () => {
        const JWT_ISSUER = `https://login.example.org/${'i'.repeat(34)}`
        const kid = 'k'.repeat(64)
        const rename = (key: JWK) => (key.alg === 'HS256' ? { ...key, kid } : key)
        return { ...(await changedKeys(keys => keys.map(rename))), JWT_ISSUER }
      },
      /^problem, keys: .*, the "kid" of a secret may have 62 characters$/,
    ],
    [
      'a key file of an earlier version, which has no key for second factors',
      withoutEncryptionKey,
      /^warning, keys: .*, 0 for second factors: these cannot be set up until "keys rotate" adds a key$/,
    ],
    [
      'the same, if a second factor is demanded',
      async () => ({ ...(await withoutEncryptionKey()), SECOND_FACTOR_ROLES: 'admin' }),
      /^problem, keys: .*: SECOND_FACTOR_ROLES needs a key .*: "keys rotate" adds one$/,
    ],
    [
      'the same, if the console demands it',
      async () => ({ ...(await withoutEncryptionKey()), ...CONSOLE }),
      /^problem, keys: .*: the console needs a key .*: "keys rotate" adds one$/,
    ],
    [
      'the same, if no second factor can be set up',
      async () => ({ ...(await withoutEncryptionKey()), SECOND_FACTOR: 'off' }),
    ],
    [
      'a console without second factors',
      { ...CONSOLE, SECOND_FACTOR: 'off' },
      /^problem, configuration: In production the console .* needs SECOND_FACTOR=on/,
    ],
    ['a console inside the network, on a host name of its own', CONSOLE],
    [
      'a console on the host name of the pages, behind a proxy range that is too wide',
      {
        ...CONSOLE,
        ADMIN_ORIGIN: 'https://login.example.org:8444',
        ADMIN_TRUST_PROXY: '10.0.0.0/8',
      },
      /^warning, console: .* gets its cookie; give it a host .* ADMIN_ORIGIN; and .* 10\.0\.0\.0\/8/,
    ],
    [
      'a console that is reachable from everywhere',
      { ...CONSOLE, ADMIN_HOST: '0.0.0.0' },
      /^warning, admin API: 0\.0\.0\.0, port 8444: others can reach it/,
      /^warning, console: .*, for admin, desk: everything that reaches this .* set ADMIN_HOST/,
    ],
    [
      'roles of the console without its port',
      { ADMIN_ROLES: 'admin' },
      /^warning, configuration: ADMIN_ROLES and HELPDESK_ROLES have no effect/,
    ],
    [
      'a key for second factors that starts in the future',
      async () => {
        const year2100 = Date.UTC(2100) / 1000
        return changedKeys(keys =>
          keys.map(key => (key.use === 'enc' ? { ...key, nbf: year2100 } : key)),
        )
      },
      /^warning, keys: .*, 1 for second factors; all keys of a kind start in the future/,
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
  for (const [name, env, ...expected] of cases) {
    test(name, async () => finds(typeof env === 'function' ? await env() : env, ...expected))
  }

  for (const [name, fromDays, toDays, expected] of [
    ['expired', -9, -1, /^problem, tls: .* expired on 2.*: renew it$/],
    ['early', 1, 9, /^problem, tls: .* is not valid before 2/],
    ['late', -1, 9, /^warning, tls: .* days left: renew it/],
    ['misnamed', -1, 100, /^warning, tls: .*localhost.*, but JWT_ISSUER names login\.example\.org/],
  ] as const) {
    test(`a certificate that is ${name}`, async () =>
      finds(await certificate(name, fromDays, toDays), expected))
  }
})

test('a key of the last rotation that the file lacks is a warning', async () => {
  const elsewhere = { SIGNING_KEYS_FILE: join(cli.folder, 'elsewhere.json') }
  assert.equal((await cli.run(['keys', 'rotate'], '', { ...production, ...elsewhere })).code, 0)
  await finds(
    {},
    /^warning, keys: .*keys\.json lacks the key (\S+ and ){2}\S+, which the audit has: copy the/,
  )
  await finds(elsewhere)
  await database.rows('delete from audit_events')
})

test('a password in an .env that others can read is a problem', async () => {
  const file = join(cli.folder, '.env')
  for (const [text, mode, ...expected] of [
    ['PGPASSWORD=secret', 0o644, /^problem, password: \.env can be read by others/],
    ['HELP_TEXT=Ask', 0o644],
    ['PGPASSWORD=secret', 0o600],
  ] as const) {
    await writeFile(file, `${text}\n`)
    await chmod(file, mode)
    await finds({}, ...expected)
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
    await finds(
      { DATABASE_URL: `postgres://ann@localhost:${port}/login?sslmode=verify-full` },
      /^problem, database: .* self-signed certificate.* add sslrootcert=FILE .* to DATABASE_URL/,
    )
  })

  test('a pool that is larger than PostgreSQL allows is a warning', async () => {
    const other = await setUpCli('postgres')
    const role = `few_${randomUUID().replaceAll('-', '')}`
    await other.database.rows(`create role ${role} superuser login connection limit 5`)
    const { DATABASE_URL = '' } = other.env
    const asRole = DATABASE_URL.replace(/\/\/[^@]*@/, `//${role}@`)
    const poolOf = (env: Record<string, string>) => detailOf('database pool', other, env)
    assert.match(
      (await poolOf({ DATABASE_URL: asRole })) ?? '',
      /^warning: DATABASE_POOL_SIZE is 10, but PostgreSQL allows this role 5 connections: lower it/,
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
    await finds({}, /^warning, hashes: 1 of 1 are above BCRYPT_COST 10/)
    await insert('bob@example.org', 'md5')
    await finds({}, /^warning, hashes: 1 of 2 cannot be verified/)
    await database.rows('delete from users')
  })

  test('a database file that others can read is a warning', async () => {
    const file = join(cli.dataDir, 'login.db')
    await chmod(file, 0o644)
    await finds({}, /^warning, database: .*login\.db can be read by others/)
    await chmod(file, 0o600)
  })
})

test('the doctor does not create the data folder, and finds what is no folder', async () => {
  for (const [DATA_DIR, code, expected] of [
    [join(cli.folder, 'not', 'there'), 0, /\/not\/there, made at the first start$/],
    ['/dev/null', 1, /cannot be made: \/dev\/null is not a folder\. Set DATA_DIR/],
  ] as const) {
    assert.equal((await examine({ DATA_DIR })).code, code)
    assert.match((await detailOf('data folder', cli, { DATA_DIR })) ?? '', expected)
  }
  assert.ok(!(await readdir(cli.folder)).includes('not'))
})

describe('no admin token, or one with an end that is near, past or too far, is a warning', () => {
  const DAY_MS = 24 * 3_600_000
  const cases: [name: string, endsInDays: number | null, ...expected: RegExp[]][] = [
    ['none', null, /^warning, admin tokens: there is no admin token yet: run "admin-tokens add"$/],
    ['past its end', -1, /^warning, admin tokens: the token one ended at 2.*: add another one/],
    ['near its end', 13.9, /^warning, admin tokens: the token one ends at 2/],
    ['far from its end', 14.1],
    ['with an end that a wrong clock gave it', 368, /^warning, admin tokens: the token one ends/],
  ]
  for (const [name, days, ...expected] of cases) {
    test(name, async () => {
      await database.rows('delete from admin_tokens')
      if (days !== null) {
        const end = new Date(Date.now() + days * DAY_MS).toISOString()
        await database.rows(`insert into admin_tokens (name, digest, role, created_at, expires_at)
          values ('one', '${'0'.repeat(64)}', 'read', '${end}', '${end}')`)
      }
      await finds({ ADMIN_PORT: '8444' }, ...expected)
    })
  }
})

for (const engine of ENGINES_BY_RUN) {
  test(`second factors whose key the file lacks are counted by key, on ${engine}`, async () => {
    const other = await setUpCli(engine)
    const found = () => detailOf('second factors', other)
    const insert = async (keyId: string, users: number) => {
      for (let i = 0; i < users; i++) {
        const id = randomUUID()
        await other.database.rows(`insert into users (id, email, name, password_hash)
          values ('${id}', '${id}@example.org', 'A', '')`)
        await other.database.rows(`insert into second_factors (user_id, kind, secret)
          values ('${id}', 'totp', '${keyId}.${'-_aZ09'.repeat(11)}')`)
      }
    }
    await insert('gone', 1)
    assert.equal(await found(), undefined, 'without a key file, the check of the keys says so')
    const rotated = JSON.parse((await other.run(['keys', 'rotate', '--json'])).stdout)
    const { keyId } = rotated.find((key: { state: string }) => key.state === 'encrypting')
    await insert(keyId, 3)
    await insert('an.older.one', 2)
    const lacks =
      'lacks the key an.older.one (2 users) and gone (1 user): restore the file of a backup'
    const reset = 'without it, these users need a reset ("users reset-second-factor")'
    const file = join(other.dataDir, 'signing-keys.json')
    assert.equal(await found(), `problem: 3 of 6 cannot be verified: ${file} ${lacks}; ${reset}`)
    await other.database.rows(`delete from second_factors where secret not like '${keyId}.%'`)
    assert.equal(await found(), 'ok: 3 stored, each with its key in the file')
  })

  test(`passkeys of another domain are counted, on ${engine}`, async () => {
    const other = await setUpCli(engine)
    const found = () => detailOf('passkeys', other)
    const id = randomUUID()
    await other.database.rows(`insert into users (id, email, name, password_hash)
      values ('${id}', 'a@example.org', 'A', '')`)
    const passkey = () => createPasskey().create('')
    await addPasskey(other.database, id, passkey(), 'localhost')
    assert.equal(await found(), undefined)
    await addPasskey(other.database, id, passkey(), 'old.example.org')
    for (let i = 0; i < 2; i++) await addPasskey(other.database, id, passkey(), 'a.example.org')
    const advice = 'set PASSKEY_RP_ID to it if JWT_ISSUER allows, or let their users add new ones'
    const detail = 'some are bound to another domain than that of this service (localhost)'
    const bound = '2 to a.example.org, 1 to old.example.org'
    assert.equal(await found(), `warning: ${detail}: ${bound}; ${advice}`)
  })

  test(`emails that no login can match, because they are not in canonical form, are counted, and three of them are shown, on ${engine}`, async () => {
    const other = await setUpCli(engine)
    const insert = (emails: string) =>
      other.database.rows(
        `insert into users (email, name, password_hash) select email, 'A', '' from (${emails}) as added`,
      )
    const emailsFound = async () => (await detailOf('emails', other)) ?? ''
    await insert(`select 'ann@example.org' as email union select 'Änn@example.org'`)
    assert.equal(await emailsFound(), 'ok: 2 stored, each in the form that a login looks up')
    await insert(`select 'Bob@example.org' as email`)
    assert.match(
      await emailsFound(),
      /^warning: 1 of 3 can never log in, .*: "Bob@example\.org"; correct them in the database$/,
    )
    // More than the doctor reads in one batch.
    const control = engine === 'sqlite' ? 'char(7, 27)' : 'chr(7) || chr(27)'
    await insert(
      `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 12000)
       select ' ' || n || '@example.org' || ${control} as email from numbers`,
    )
    const found = await emailsFound()
    assert.match(found, /^warning: 12001 of 12003 can never log in, .* and others; correct them/)
    assert.equal(found.split('@example.org').length - 1, 3)
    assert.doesNotMatch(found, /\p{Cc}/u)
  })
}
