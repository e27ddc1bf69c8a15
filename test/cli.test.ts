// Every command as a transcript: its arguments, stdout, stderr and exit code.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { describe, type TestContext, test } from 'node:test'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { type Cli, createCli, MAIN } from './cli.ts'
import { createTestDatabase, ENGINES, type TestDatabase } from './engines.ts'

/** Run on both engines: only the name of the database may differ. */
const ON_BOTH = ['users', 'sessions', 'not-found', 'database', 'doctor', 'audit', 'throttle']
/** The results do not depend on the engine. */
const ON_ONE = ['emails', 'passwords', 'wrong-use', 'keys', 'admin-tokens', 'faults']
/** Replayed with a process per command too: input, environment, exit codes, and that a process ends. */
const AS_PROCESSES: [name: string, engine: EngineName][] = [['keys', 'postgres']]

async function createCliFor(
  t: TestContext,
  engine: EngineName,
): Promise<Cli & { database: TestDatabase }> {
  const database = await createTestDatabase(engine)
  const cli = await createCli(database)
  t.after(async () => {
    await cli.remove()
    await database.drop()
  })
  return { ...cli, database }
}

const readTranscript = (name: string) =>
  readFile(new URL(`transcripts/${name}.txt`, import.meta.url), 'utf8')

describe('commands print what their transcripts say', () => {
  const replays = async (t: TestContext, engine: EngineName, name: string) => {
    const { replay, run } = await createCliFor(t, engine)
    const transcript = await readTranscript(name)
    assert.equal(await replay(transcript, run), transcript)
  }
  for (const engine of ENGINES) {
    for (const name of ON_BOTH) test(`${name}, on ${engine}`, t => replays(t, engine, name))
  }
  for (const name of ON_ONE) test(name, t => replays(t, 'sqlite', name))

  for (const [name, engine] of AS_PROCESSES) {
    test(`${name}, on ${engine}, with a process per command`, async t => {
      const { replay, runProcess } = await createCliFor(t, engine)
      const transcript = await readTranscript(name)
      assert.equal(await replay(transcript, runProcess), transcript)
    })
  }
})

test('--help and no command print the help; a group without a command prints its help and fails', async t => {
  const { runProcess: run } = await createCliFor(t, 'sqlite')
  const bare = await run([])
  assert.equal(bare.code, 0)
  assert.equal(bare.stderr, '')
  assert.match(bare.stdout, /^Usage: npm run -s admin -- /)
  assert.deepEqual(await run(['--help']), bare)
  const users = await run(['users', '--help'])
  assert.equal(users.code, 0)
  const withoutCommand = { code: 2, stdout: '', stderr: users.stdout }
  assert.deepEqual(await run(['users']), withoutCommand)
})

test('a change is one log line, with its actor and without a secret', async t => {
  const { run } = await createCliFor(t, 'sqlite')
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

for (const engine of ENGINES) {
  test(`a list of several batches has every user once, in order, in aligned columns, on ${engine}`, async t => {
    const { run, database } = await createCliFor(t, engine)
    await run(['database', 'migrate'])
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

test('an email that looks like another is refused by "users add" and accepted by other commands', async t => {
  const { run, database } = await createCliFor(t, 'sqlite')
  const add = ['--name', 'Ann', '--generate']
  assert.equal((await run(['users', 'add', 'ann@example.org', ...add])).code, 0)
  for (const [email, codePoint] of [
    ['a\u200bnn@example.org', 'U+200B'],
    ['ann\u00ad@example.org', 'U+00AD'],
    ['ann@example.org\u2060', 'U+2060'],
    ['\u202eann@example.org', 'U+202E'],
  ] as const) {
    const { code, stdout, stderr } = await run(['users', 'add', email, ...add])
    assert.deepEqual(
      [code, stdout, stderr],
      [
        2,
        '',
        `This email cannot be used: it has ${codePoint}, which is invisible or looks like another character.\n`,
      ],
    )
    await database.rows(
      `insert into users (email, name, password_hash) values ('${email}', 'Ann', '')`,
    )
    assert.equal((await run(['users', 'show', email])).code, 0)
    assert.equal((await run(['users', 'delete', email, '--yes'])).code, 0)
  }
})

describe('an output that cannot be written', () => {
  const ADD = ['users', 'add', 'ann@example.org', '--name', 'Ann', '--generate']
  const LOST =
    'The password of ann@example.org was set but could not be printed: run "users set-password".\n'

  test('is no failure if its reader has closed it, as after "| head"', async t => {
    const { env, folder } = await createCliFor(t, 'sqlite')
    for (const [args, code, said] of [
      [ADD, 1, LOST],
      [['users', 'list', '--json'], 0, ''],
      [['--help'], 0, ''],
    ] as const) {
      const child = spawn(process.execPath, [MAIN, ...args], { cwd: folder, env })
      child.stdout.destroy()
      const [stderr, [ended]] = await Promise.all([text(child.stderr), once(child, 'close')])
      assert.equal(ended, code)
      assert.equal(stderr.replace(/^\{.*\n/, ''), said)
    }
  })

  test('is a failure if the disk is full', async t => {
    const { env, folder } = await createCliFor(t, 'sqlite')
    const full = await open('/dev/full', 'w')
    t.after(() => full.close())
    for (const [args, said] of [
      [ADD, LOST],
      [
        ['users', 'list'],
        'The output could not be written: ENOSPC: no space left on device, write.\n',
      ],
    ] as const) {
      const stdio = ['ignore', full.fd, 'pipe'] as const
      const child = spawn(process.execPath, [MAIN, ...args], {
        cwd: folder,
        env,
        stdio: [...stdio],
      })
      assert.ok(child.stderr)
      const [stderr, [ended]] = await Promise.all([text(child.stderr), once(child, 'close')])
      assert.equal(ended, 1)
      assert.equal(stderr.replace(/^\{.*\n/, ''), said)
    }
  })
})

test('a name or role with a character that is invisible or reorders text is refused by add, set and import', async t => {
  const { run } = await createCliFor(t, 'sqlite')
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
  for (const character of [...ZERO_WIDTH, ...BIDIRECTIONAL, '\u2028', '\u{e0041}']) {
    const code = `U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}`
    const text = `a${character}b`
    for (const field of ['name', 'role']) {
      const row = { email: 'new@example.org', name: 'New', passwordHash: hash, [field]: text }
      const fields = { name: 'New', [field]: text }
      const options = Object.entries(fields).flatMap(([name, value]) => [`--${name}`, value])
      for (const [args, input] of [
        [['users', 'add', 'new@example.org', ...options, '--generate']],
        [['users', 'set', email, ...options]],
        [['users', 'import', '-', '--dry-run'], JSON.stringify(row)],
      ] as [string[], string?][]) {
        const ended = await run(args, input)
        assert.notEqual(ended.code, 0, `${code} ${args.join(' ')}`)
        assert.match(ended.stderr, new RegExp(`${field} has ${code.replace('+', '\\+')}`))
      }
    }
  }
  const selected = await run(['users', 'set', email, '--role', 'admin\ufe0f'])
  assert.match(selected.stderr, /--role has U\+FE0F/)
})
