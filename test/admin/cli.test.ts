// Every command as a transcript: its arguments, stdout, stderr and exit code.
import assert from 'node:assert/strict'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { JWK } from 'jose'
import { parseLine, setUpCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { assertTranscript, ON_BOTH, ON_ONE, setUpEmptyCli } from '../support/transcripts.ts'

describe('commands print what their transcripts say', () => {
  for (const name of [...ON_BOTH, ...ON_ONE]) test(name, () => assertTranscript('sqlite', name))
})

test('every way to ask for a help prints the same; a group without a command prints its help and fails', async () => {
  const { run } = await setUpEmptyCli()
  const bare = await run([])
  assert.deepEqual([bare.code, bare.stderr], [0, ''])
  assert.match(bare.stdout, /^Usage: \.\/login-service /)
  for (const asked of ['--help', 'help']) assert.deepEqual(await run([asked]), bare)
  const users = await run(['users', '--help'])
  assert.equal(users.code, 0)
  assert.deepEqual(await run(['users']), { code: 2, stdout: '', stderr: users.stdout })
  const add = await run(['users', 'add', '--help'])
  assert.match(add.stdout, /^ +--name <name> +the display name \(required\)$/m)
  assert.deepEqual(await run(['help', 'users', 'add']), add)
  assert.deepEqual(await run(['users', 'help', 'add']), add)
})

test('an id that begins like an option of the program is an id', async () => {
  const { run } = await setUpCli()
  const { stdout } = await run(['audit', 'list', '--target', '-Vabc', '--json'])
  assert.deepEqual(JSON.parse(stdout), [])
})

test('the help of every command has examples, and they are valid; without a database a command leaves no file where it was started', async () => {
  const { run, folder } = await setUpEmptyCli()
  assert.equal((await run(['users', 'list'])).code, 1)
  assert.deepEqual(await readdir(folder), [])
  await writeFile(join(folder, 'users.csv'), 'email,name,passwordHash\n')
  await writeFile(join(folder, 'old-users.csv'), 'login,name,passwordHash\n')
  const examples: string[] = []
  const visit = async (path: string[]): Promise<void> => {
    const { stdout } = await run([...path, '--help'])
    const [, listed = ''] = /^Commands:\n((?: .*\n)+)/m.exec(stdout) ?? []
    const names = [...listed.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name = '']) => name)
    const shown = [...stdout.matchAll(/^ {2}\.\/login-service (.*)$/gm)]
    assert.ok(names.length > 0 || shown.length > 0, path.join(' '))
    examples.push(...shown.map(([, example = '']) => example))
    for (const name of names) if (name !== 'help') await visit([...path, name])
  }
  await visit([])
  assert.ok(examples.length > 30)
  // The service would not end. Other tests start it.
  for (const example of examples.filter(each => each !== 'serve')) {
    const { args } = parseLine(example.replace(/ [<>].*/, ''))
    const { code, stderr } = await run(args, 'correct horse')
    assert.notEqual(code, 2, `${example}: ${stderr}`)
  }
})

test('"keys rotate" adds the key that encrypts where it is missing, once, and says where it is needed', async () => {
  const { run, dataDir } = await setUpEmptyCli()
  assert.equal((await run(['database', 'migrate'])).code, 0)
  assert.equal((await run(['keys', 'rotate'])).code, 0)
  const path = join(dataDir, 'signing-keys.json')
  const { keys }: { keys: JWK[] } = JSON.parse(await readFile(path, 'utf8'))
  await writeFile(path, JSON.stringify({ keys: keys.filter(({ use }) => use === 'sig') }))

  const { stdout, stderr } = await run(['keys', 'rotate', '--json'])
  assert.match(stderr, /\nAdded the missing key .*; it is used at once\. Copy the file to all/)
  const [key, ...others] = JSON.parse(stdout).filter(
    ({ algorithm = '' }) => algorithm === 'A256GCM',
  )
  assert.deepEqual([others, key.tokens, key.state], [[], 'second factors', 'encrypting'])
  const audited = await run(['audit', 'list', '--target', key.keyId, '--json'])
  const [event] = JSON.parse(audited.stdout)
  const { fingerprint, ...facts } = event.after
  assert.match(fingerprint, /^[\da-f]{32}$/)
  assert.deepEqual(facts, { tokens: 'second factors', algorithm: 'A256GCM' })

  const again = await run(['keys', 'rotate', '--json'])
  assert.doesNotMatch(again.stderr, /missing key/)
  const kept = JSON.parse(again.stdout).filter(({ tokens = '' }) => tokens === 'second factors')
  assert.deepEqual(kept, [key])
})

test('a change is one log line, with its actor and without a secret', async () => {
  const { run } = await setUpEmptyCli()
  const args = ['users', 'add', 'ann@example.org', '--name', 'Ann', '--password-stdin']
  const { stderr } = await run(args, 'correct horse')
  const { time, actor, userId, ...line }: Record<string, string> = JSON.parse(stderr)
  assert.ok(time && actor && userId)
  assert.deepEqual(line, {
    ...{ level: 'info', event: 'admin.user_added', email: 'ann@example.org', role: 'user' },
    msg: 'Added ann@example.org with the role "user".',
  })
})

for (const engine of ENGINES_BY_RUN) {
  test(`a list of several batches has every user once, in order, in aligned columns, on ${engine}`, async () => {
    const { run, database } = await setUpCli(engine)
    await database.rows(`with recursive n (i) as (select 1 union all select i + 1 from n where i < 2500)
      insert into users (email, password_hash, name)
      select substr('000' || i, length('' || i)) || '@example.org', '-', 'User ' || i from n`)
    const { stdout } = await run(['users', 'list'])
    const [header = '', ...rows] = stdout.trimEnd().split('\n')
    const expected = Array.from({ length: 2500 }, (_, index) => `User ${index + 1}`)
    const names = rows.map(row => row.slice(header.indexOf('NAME')))
    assert.deepEqual(names, expected)
    const json = (await run(['users', 'list', '--json'])).stdout
    const users: { name: string }[] = JSON.parse(json)
    const namesInJson = users.map(({ name }) => name)
    assert.deepEqual(namesInJson, expected)
    assert.ok(!/hash/i.test(json))
  })
}

test('a name or role with a character that is invisible or reorders text is refused by add, set and import', async () => {
  const { run } = await setUpEmptyCli()
  const email = 'ann@example.org'
  await run(['users', 'add', email, '--name', 'Ann', '--generate'])
  const rowWith = (fields: object) => {
    const row = { email: 'new@example.org', name: 'New', passwordHash: '$2b$04$'.padEnd(60, '.') }
    return JSON.stringify({ ...row, ...fields })
  }
  const names = ['Zoë', 'Ann 😀', 'Ann ❤️', '葛\u{e0100}城', 'محمد', 'นรินทร์', 'Ann  B']
  const allowed = names.map((name, i) => rowWith({ name, email: `${i}${email}` })).join('\n')
  assert.equal((await run(['users', 'import', '-', '--dry-run'], allowed)).code, 0)
  const ZERO_WIDTH = '\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\u3164\u2800'
  const BIDIRECTIONAL = '\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069'
  const codeOf = (character: string) =>
    `U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}`
  const FORBIDDEN = [...ZERO_WIDTH, ...BIDIRECTIONAL, '\u2028', '\u{e0041}']
  for (const field of ['name', 'role']) {
    // An import shows 20 reasons.
    for (const some of [FORBIDDEN.slice(0, 20), FORBIDDEN.slice(20)]) {
      const rows = some.map(character => rowWith({ [field]: `a${character}b` })).join('\n')
      const { code, stderr } = await run(['users', 'import', '-', '--dry-run'], rows)
      assert.equal(code, 1)
      for (const said of some.map(character => `1 row rejected: ${field} has ${codeOf(character)}`))
        assert.ok(stderr.includes(said), said)
    }
    const options = Object.entries({ name: 'New', [field]: 'a\u202eb' }).flatMap(
      ([name, value]) => [`--${name}`, value],
    )
    for (const args of [
      ['users', 'add', 'new@example.org', ...options, '--generate'],
      ['users', 'set', email, ...options],
    ]) {
      const { code, stderr } = await run(args)
      assert.equal(code, 2, args.join(' '))
      assert.ok(stderr.includes(`${field} has U+202E`), stderr)
    }
  }
  const selected = await run(['users', 'set', email, '--role', 'admin\ufe0f'])
  assert.match(selected.stderr, /--role has U\+FE0F/)
})

test('a time without a zone is UTC in every zone, and a duration counts from now', async () => {
  const { run, database } = await setUpEmptyCli()
  const email = 'ann@example.org'
  await run(['users', 'add', email, '--name', 'Ann', '--generate'])
  const lockedUntil = async () =>
    String((await database.rows('select locked_until from users'))[0]?.locked_until)
  const lock = (until: string) =>
    run(['users', 'lock', email, '--until', until], '', { TZ: 'Asia/Tokyo' })
  for (const [typed, meant] of [
    ['2990-01-31T12:00', '2990-01-31T12:00:00.000Z'],
    ['2990-01-31T12:00:30.5', '2990-01-31T12:00:30.500Z'],
    ['2990-01-31', '2990-01-31T00:00:00.000Z'],
    ['2990-01-31T12:00+09:00', '2990-01-31T03:00:00.000Z'],
  ] as const) {
    const { stderr } = await lock(typed)
    assert.equal(await lockedUntil(), meant, typed)
    assert.ok(stderr.includes(`until ${meant.replace(/\.\d+Z/, 'Z')}`), stderr)
  }
  for (const [typed, seconds] of Object.entries({ '90m': 5_400, '2h': 7_200, '30d': 2_592_000 })) {
    const earliest = Date.now() + seconds * 1_000
    await lock(typed)
    const locked = new Date(await lockedUntil()).getTime()
    assert.ok(locked >= earliest && locked <= Date.now() + seconds * 1_000, typed)
  }
  const row = { email, name: 'Ann', passwordHash: '$2b$04$'.padEnd(60, '.') }
  const locked = JSON.stringify({ ...row, lockedUntil: '2991-01-31T12:00' })
  await run(['users', 'import', '-', '--update'], locked, { TZ: 'Asia/Tokyo' })
  assert.equal(await lockedUntil(), '2991-01-31T12:00:00.000Z')

  await database.rows(`insert into audit_events (at, actor_kind, actor, host, action, target)
    values ('2001-01-01T00:00:00.000Z', 'user', 'a', 'a', 'user.added', 'old@example.org')`)
  for (const [since, isListed] of [
    ['1h', false],
    ['99999d', true],
    ['2001-01-01T00:00', true],
    ['2001-01-01T00:01', false],
  ] as const) {
    const args = ['audit', 'list', '--since', since]
    const { stdout } = await run(args, '', { TZ: 'Asia/Tokyo' })
    assert.equal(stdout.includes('old@example.org'), isListed, since)
  }
})
