// Every command as a transcript: its arguments, stdout, stderr and exit code.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { parseLine, setUpCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { assertTranscript, ON_BOTH, ON_ONE, setUpEmptyCli } from '../support/transcripts.ts'

describe('commands print what their transcripts say', () => {
  for (const name of [...ON_BOTH, ...ON_ONE]) test(name, t => assertTranscript(t, 'sqlite', name))
})

test('--help and no command print the help; a group without a command prints its help and fails', async t => {
  const { run } = await setUpEmptyCli(t, 'sqlite')
  const bare = await run([])
  assert.equal(bare.code, 0)
  assert.equal(bare.stderr, '')
  assert.match(bare.stdout, /^Usage: \.\/login-service /)
  assert.deepEqual(await run(['--help']), bare)
  const users = await run(['users', '--help'])
  assert.equal(users.code, 0)
  const withoutCommand = { code: 2, stdout: '', stderr: users.stdout }
  assert.deepEqual(await run(['users']), withoutCommand)
})

test('an id that begins like an option of the program is an id', async t => {
  const { run } = await setUpCli('sqlite', t)
  const { stdout } = await run(['audit', 'list', '--target', '-Vabc', '--json'])
  assert.deepEqual(JSON.parse(stdout), [])
})

test('a command that finds no database leaves no file where it was started', async t => {
  const { run } = await setUpEmptyCli(t, 'sqlite')
  assert.equal((await run(['users', 'list'])).code, 1)
  assert.ok(!existsSync(':memory:'))
})

test('the help marks required options, and "help users add" is the help of "users add"', async t => {
  const { run } = await setUpEmptyCli(t, 'sqlite')
  const help = await run(['users', 'add', '--help'])
  assert.match(help.stdout, /^ +--name <name> +the display name \(required\)$/m)
  assert.deepEqual(await run(['help', 'users', 'add']), help)
  assert.deepEqual(await run(['users', 'help', 'add']), help)
  assert.deepEqual(await run(['help']), await run([]))
})

test('the help of every command has examples, and they are valid', async t => {
  const { run, folder } = await setUpEmptyCli(t, 'sqlite')
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

test('a change is one log line, with its actor and without a secret', async t => {
  const { run } = await setUpEmptyCli(t, 'sqlite')
  const args = ['users', 'add', 'ann@example.org', '--name', 'Ann', '--password-stdin']
  const { stderr } = await run(args, 'correct horse')
  const { time, actor, userId, ...line }: Record<string, string> = JSON.parse(stderr)
  assert.ok(time && actor && userId)
  assert.deepEqual(line, {
    level: 'info',
    event: 'admin.user_added',
    email: 'ann@example.org',
    role: 'user',
    msg: 'Added ann@example.org with the role "user".',
  })
})

for (const engine of ENGINES_BY_RUN) {
  test(`a list of several batches has every user once, in order, in aligned columns, on ${engine}`, async t => {
    const { run, database } = await setUpCli(engine, t)
    await database.rows(`with recursive n (i) as (select 1 union all select i + 1 from n where i < 2500)
      insert into users (email, password_hash, name)
      select substr('000' || i, length('' || i)) || '@example.org', '-', 'User ' || i from n`)
    const { stdout } = await run(['users', 'list'])
    const [header = '', ...rows] = stdout.trimEnd().split('\n')
    const column = header.indexOf('NAME')
    assert.deepEqual(
      rows.map(row => row.slice(column)),
      Array.from({ length: 2500 }, (_, index) => `User ${index + 1}`),
    )
    const users: { name: string; passwordHash?: string }[] = JSON.parse(
      (await run(['users', 'list', '--json'])).stdout,
    )
    assert.deepEqual(
      users.map(({ name }) => name),
      rows.map(row => row.slice(column)),
    )
    assert.ok(users.every(user => user.passwordHash === undefined))
  })
}

test('a name or role with a character that is invisible or reorders text is refused by add, set and import', async t => {
  const { run } = await setUpEmptyCli(t, 'sqlite')
  const email = 'ann@example.org'
  const names = ['Zoë', 'Ann 😀', 'Ann ❤️', '葛\u{e0100}城', 'محمد', 'นรินทร์', 'Ann  B']
  for (const [i, name] of names.entries()) {
    const { code } = await run(['users', 'add', `${i}${email}`, '--name', name, '--generate'])
    assert.equal(code, 0, name)
  }
  await run(['users', 'add', email, '--name', 'Ann', '--generate'])
  const hash = '$2b$04$'.padEnd(60, '.')
  const ZERO_WIDTH = '\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\u3164\u2800'
  const BIDIRECTIONAL = '\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069'
  const codeOf = (character: string) =>
    `U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}`
  const FORBIDDEN = [...ZERO_WIDTH, ...BIDIRECTIONAL, '\u2028', '\u{e0041}']
  const imported = FORBIDDEN.flatMap(character =>
    ['name', 'role'].map(field => {
      const text = `a${character}b`
      const row = { email: 'new@example.org', name: 'New', passwordHash: hash, [field]: text }
      return { row: JSON.stringify(row), said: `1 row rejected: ${field} has ${codeOf(character)}` }
    }),
  )
  // An import shows 20 reasons.
  for (let i = 0; i < imported.length; i += 20) {
    const some = imported.slice(i, i + 20)
    const rows = some.map(({ row }) => row).join('\n')
    const { code, stderr } = await run(['users', 'import', '-', '--dry-run'], rows)
    assert.notEqual(code, 0)
    for (const { said } of some) assert.ok(stderr.includes(said), said)
  }
  for (const character of ['\u200b', '\u202e', '\u2028', '\u{e0041}']) {
    for (const field of ['name', 'role']) {
      const fields = { name: 'New', [field]: `a${character}b` }
      const options = Object.entries(fields).flatMap(([name, value]) => [`--${name}`, value])
      for (const args of [
        ['users', 'add', 'new@example.org', ...options, '--generate'],
        ['users', 'set', email, ...options],
      ]) {
        const { code, stderr } = await run(args)
        assert.notEqual(code, 0, `${codeOf(character)} ${args.join(' ')}`)
        assert.ok(stderr.includes(`${field} has ${codeOf(character)}`), stderr)
      }
    }
  }
  const selected = await run(['users', 'set', email, '--role', 'admin\ufe0f'])
  assert.match(selected.stderr, /--role has U\+FE0F/)
})

test('a time without a zone is UTC in every zone, and a duration counts from now', async t => {
  const { run, database } = await setUpEmptyCli(t, 'sqlite')
  const email = 'ann@example.org'
  await run(['users', 'add', email, '--name', 'Ann', '--generate'])
  const lockedUntil = async () =>
    String((await database.rows('select locked_until from users'))[0]?.locked_until)
  const TIMES: [typed: string, meant: string][] = [
    ['2990-01-31T12:00', '2990-01-31T12:00:00.000Z'],
    ['2990-01-31T12:00:30.5', '2990-01-31T12:00:30.500Z'],
    ['2990-01-31', '2990-01-31T00:00:00.000Z'],
    ['2990-01-31T12:00+09:00', '2990-01-31T03:00:00.000Z'],
  ]
  for (const [typed, meant] of TIMES) {
    const args = ['users', 'lock', email, '--until', typed]
    const { stderr } = await run(args, '', { TZ: 'Asia/Tokyo' })
    assert.equal(await lockedUntil(), meant, typed)
    assert.ok(stderr.includes(`until ${meant.replace(/\.\d+Z/, 'Z')}`), stderr)
  }
  for (const [typed, seconds] of [
    ['90m', 5_400],
    ['2h', 7_200],
    ['30d', 30 * 86_400],
  ] as const) {
    const earliest = Date.now() + seconds * 1_000
    await run(['users', 'lock', email, '--until', typed])
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
  for (const typed of ['0h', '2', '2H', '2 h', '-2h', '1.5h', '2w', '100000d', 'h', '2h30m']) {
    const { code, stderr } = await run(['users', 'lock', email, `--until=${typed}`])
    assert.equal(code, 2, typed)
    assert.match(stderr, /--until takes a time such as 2030-01-31T12:00 \(UTC\) or a duration/)
  }
})
