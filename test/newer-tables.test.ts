// Tables of a newer version: the start and every command say so, and write nothing.
import assert from 'node:assert/strict'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { createCli } from './cli.ts'
import { createTestDatabase, ENGINES } from './engines.ts'
import { run } from './process.ts'

const COMMANDS = [
  ['users', 'list'],
  ['users', 'show', 'ann@example.org'],
  ['users', 'add', 'bob@example.org', '--name', 'Bob', '--generate'],
  ['users', 'unlock', 'ann@example.org'],
  ['users', 'delete', 'ann@example.org', '--yes'],
  ['sessions', 'end', 'ann@example.org'],
  ['devices', 'list', 'ann@example.org'],
  ['audit', 'list'],
  ['database', 'migrate'],
  ['database', 'status'],
  ['database', 'purge'],
  ['doctor'],
]
const TABLES = ['users', 'audit_events', 'service', 'login_throttle', 'kysely_migration']
const MESSAGE =
  /its tables were made by a newer version \(9999-future\): install that version, or restore a backup/

for (const engine of ENGINES) {
  test(`on ${engine}`, async t => {
    const database = await createTestDatabase(engine)
    const cli = await createCli(database)
    t.after(async () => {
      await cli.remove()
      await database.drop()
    })
    const added = await cli.run(['users', 'add', 'ann@example.org', '--name', 'Ann', '--generate'])
    assert.equal(added.code, 0)
    await database.rows(
      `insert into kysely_migration (name, timestamp) values ('9999-future', '2030-01-01T00:00:00.000Z')`,
    )
    const content = () =>
      Promise.all(TABLES.map(table => database.rows(`select * from ${table} order by 1`)))
    const before = await content()

    for (const args of COMMANDS) {
      const { code, stdout, stderr } = await cli.run(args)
      assert.match(stdout + stderr, MESSAGE, args.join(' '))
      assert.equal(code, 1, args.join(' '))
    }
    const { config } = database
    const service = run({
      DATA_DIR: config.engine === 'sqlite' ? dirname(config.file) : join(cli.folder, 'data'),
      DATABASE_URL: config.engine === 'postgres' ? config.url : '',
    })
    assert.deepEqual(await service.exit, { code: 1, signal: null })
    assert.match(service.output(), MESSAGE)
    assert.deepEqual(await content(), before)
  })
}
