// Tables of a newer version, or of one before 0.4: the start and every command say so, and write nothing.
import assert from 'node:assert/strict'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { setUpCli } from '../support/cli.ts'
import { createTestDatabase, ENGINES } from '../support/engines.ts'
import { run } from '../support/process.ts'

const COMMANDS = [
  ['users', 'list'],
  ['users', 'show', 'ann@example.org'],
  ['users', 'add', 'bob@example.org', '--name', 'Bob', '--generate'],
  ['users', 'unlock', 'ann@example.org'],
  ['users', 'delete', 'ann@example.org', '--yes'],
  ['sessions', 'end', 'ann@example.org'],
  ['audit', 'list'],
  ['database', 'migrate'],
  ['database', 'status'],
  ['database', 'purge'],
  ['doctor'],
]
const TABLES = ['users', 'audit_events', 'service', 'login_throttle', 'kysely_migration']
const VERSIONS = [
  {
    version: 'a newer version',
    change: `insert into kysely_migration (name, timestamp) values ('9999-future', '2030-01-01T00:00:00.000Z')`,
    message:
      /cannot be used: its tables were made by a newer version \(9999-future\): install that version, or restore a backup\.?\n/,
    commands: COMMANDS,
  },
  {
    version: 'version 0.3',
    change: `update kysely_migration set name = '0001-initial'`,
    message:
      /cannot be used: its tables were made by version 0\.3 or an earlier one: carry the users over to an empty database, with "users export --with-hashes" of that version and "users import" of this one\.?\n/,
    commands: [['users', 'list'], ['database', 'migrate'], ['doctor']],
  },
]
const CASES = ENGINES.flatMap(engine => VERSIONS.map(version => ({ engine, ...version })))

for (const { engine, version, change, message, commands } of CASES) {
  test(`of ${version} on ${engine}`, async () => {
    const cli = await setUpCli(engine, createTestDatabase(engine))
    const { database } = cli
    const added = await cli.run(['users', 'add', 'ann@example.org', '--name', 'Ann', '--generate'])
    assert.equal(added.code, 0)
    await database.rows(change)
    const content = () =>
      Promise.all(TABLES.map(table => database.rows(`select * from ${table} order by 1`)))
    const before = await content()

    for (const args of commands) {
      const { code, stdout, stderr } = await cli.run(args)
      assert.match(stdout + stderr, message, args.join(' '))
      assert.equal(code, 1, args.join(' '))
    }
    const { config } = database
    const service = run({
      DATA_DIR: config.engine === 'sqlite' ? dirname(config.file) : join(cli.folder, 'data'),
      DATABASE_URL: config.engine === 'postgres' ? config.url : '',
    })
    assert.deepEqual(await service.exit, { code: 1, signal: null })
    assert.match(service.output(), message)
    assert.deepEqual(await content(), before)
  })
}
