// Every command that writes, with every fault of every statement: it ends with a message, and stores all or nothing.
// Every other command writes nothing, or has a reason here.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Command } from 'commander'
import { createProgram } from '../../../src/cli/program.ts'
import { createTerminal } from '../../../src/cli/terminal.ts'
import { ENGINES } from '../../support/engines.ts'
import { databaseCommands, judgeCommands, setUpCommands } from './commands.ts'
import { injectIntoDrivers } from './faults.ts'
import { fileCommands, rotation } from './file-commands.ts'
import { proveAll } from './loop.ts'

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
  'database migrate': 'migrate.slow.test.ts proves it',
}

for (const engine of ENGINES) {
  test(`every statement of every command on ${engine}`, async t => {
    const commands = await setUpCommands(engine, injectIntoDrivers)
    const { faults, database } = commands
    const operations = { ...databaseCommands(commands), 'keys rotate': rotation(commands, 1) }
    await proveAll(t, `commands on ${engine}, statements`, operations, {
      ...{ faults, judge: judgeCommands(database), engine, clear: database.clear },
      unit: 'statement',
    })
  })
}

function leavesOf(command: Command, path: string[] = []): string[] {
  if (command.commands.length === 0) return [path.join(' ')]
  return command.commands.flatMap(inner => leavesOf(inner, [...path, inner.name()]))
}

test('every command is proven, writes nothing, or has a reason', async () => {
  const commands = await setUpCommands('sqlite')
  const clock = () => new Date()
  const context = { terminal: createTerminal(process), env: {}, envFileWarnings: [], clock }
  const all = leavesOf(await createProgram(context, undefined))
  const titles = Object.keys({ ...databaseCommands(commands), ...fileCommands(commands) })
  const isProven = (command: string) => titles.some(title => `${title} `.startsWith(`${command} `))
  assert.deepEqual(
    all.filter(command => !isProven(command)).toSorted(),
    Object.keys({ ...READING, ...NOT_PROVEN }).toSorted(),
  )
})

test('a command that is said to write nothing changes neither the database nor a file', async () => {
  const { run, database, folder } = await setUpCommands('sqlite')
  async function succeed(...args: string[]) {
    const { error } = await run(args, 'a password of seven words')
    assert.equal(error, null, args.join(' '))
  }
  await succeed('users', 'add', EMAIL, '--name', 'Kim', '--password-stdin')
  await succeed('keys', 'rotate')
  await succeed('admin-tokens', 'add', 'reader', '--role', 'read')
  const state = async () => [
    // SQLite counts the changes that other connections have committed.
    await database.rows('pragma data_version'),
    readdirSync(folder).map(name => [name, readFileSync(join(folder, name), 'utf8')]),
  ]
  for (const [command, args] of Object.entries(READING)) {
    const before = await state()
    await succeed(...command.split(' '), ...args)
    assert.deepEqual(await state(), before, command)
  }
})
