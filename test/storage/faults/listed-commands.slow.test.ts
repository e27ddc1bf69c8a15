// Every command is proven under faults, or writes nothing, or has a reason here.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Command } from 'commander'
import { createProgram } from '../../../src/cli/program.ts'
import { createTerminal } from '../../../src/cli/terminal.ts'
import { type Ended, setUpCommands } from './commands.ts'
import { databaseCommands } from './database-commands.ts'
import { fileCommands } from './file-commands.ts'
import { MIGRATE_TITLE } from './prove-migrate.ts'

const EMAIL = 'kim@example.com'

/** The commands that write nothing, with their arguments. */
const READING: Record<string, string[]> = {
  'users list': [],
  'users show': [EMAIL],
  'sessions list': [EMAIL],
  'throttle show': ['--email', EMAIL],
  'audit list': [],
  'keys list': [],
  'admin-tokens list': [],
  'database status': [],
}

const NOT_PROVEN: Record<string, string> = {
  serve: 'its requests are proven, and test/operation/ has the faults of its start',
  doctor: 'it writes one row that has no meaning, to learn whether the database accepts that',
}

function leavesOf(command: Command, path: string[] = []): string[] {
  if (command.commands.length === 0) return [path.join(' ')]
  return command.commands.flatMap(inner => leavesOf(inner, [...path, inner.name()]))
}

test('every command is proven, writes nothing, or has a reason', async t => {
  const { commands, store } = await setUpCommands(t, 'sqlite', () => () => {})
  const context = {
    terminal: createTerminal(process),
    env: {},
    envFileWarnings: [],
    clock: () => new Date(),
  }
  const all = leavesOf(await createProgram(context, undefined))
  const titles = [
    ...[...databaseCommands(commands, store), ...fileCommands(commands, store)].map(
      ({ title }) => title,
    ),
    MIGRATE_TITLE,
  ]
  const isProven = (command: string) => titles.some(title => `${title} `.startsWith(`${command} `))
  assert.deepEqual(
    all.filter(command => !isProven(command)).toSorted(),
    Object.keys({ ...READING, ...NOT_PROVEN }).toSorted(),
  )
})

test('a command that is said to write nothing changes neither the database nor a file', async t => {
  const { commands, database } = await setUpCommands(t, 'sqlite', () => () => {})
  const run = async (...args: string[]): Promise<Ended> => {
    const ended = await commands.run(args, 'a password of seven words')
    assert.equal(ended.error, null, args.join(' '))
    return ended
  }
  await run('users', 'add', EMAIL, '--name', 'Kim', '--password-stdin')
  await run('keys', 'rotate')
  await run('admin-tokens', 'add', 'reader', '--role', 'read')
  const state = async () => [
    // SQLite counts the changes that other connections have committed.
    await database.rows('pragma data_version'),
    readdirSync(commands.folder).map(name => [
      name,
      readFileSync(join(commands.folder, name), 'utf8'),
    ]),
  ]
  for (const [command, args] of Object.entries(READING)) {
    const before = await state()
    await run(...command.split(' '), ...args)
    assert.deepEqual(await state(), before, command)
  }
})
