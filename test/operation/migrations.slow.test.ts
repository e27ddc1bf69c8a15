// The next version migrates the tables while an instance of this one serves logins. Of tables of a newer version, or of
// one before 0.4, the start and every command say so, and write nothing.
import assert from 'node:assert/strict'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { setUpCli } from '../support/cli.ts'
import { createTestDatabase, ENGINES } from '../support/engines.ts'
import { MADE_UP, NEXT_VERSION } from '../support/made-up-migration.ts'
import { inParallel, own } from '../support/own.ts'
import { createDeployment, PROJECT, run, stop, until } from '../support/process.ts'
import { countStatuses, UNLIMITED } from '../support/service.ts'

const OWNER = 'owner@example.com'
const CLIENTS = 4
const MIGRATE = { command: [process.execPath, 'launch.cjs', 'src/main.ts', 'database', 'migrate'] }

for (const engine of ENGINES) {
  test(`beside an instance that serves logins, on ${engine}`, async () => {
    const deployment = await own(createDeployment(engine, UNLIMITED))
    await deployment.addUser(OWNER)
    const service = await deployment.start()
    let isOver = false
    const logins = inParallel(CLIENTS, async () => {
      const answers = [await service.login(OWNER)]
      while (!isOver) answers.push(await service.login(OWNER))
      return [...answers, await service.login(OWNER)]
    })
    const { config } = deployment.database
    const reader = config.engine === 'postgres' ? new pg.Client(config.url) : null
    await reader?.connect()
    // As a backup does.
    await reader?.query('begin; select from users')
    const env = { ...deployment.env, ...NEXT_VERSION }
    const migrating = run(env, { ...MIGRATE, cwd: PROJECT })
    if (reader) {
      const waiting = `the migration ${MADE_UP} waits for tables`
      await until(async () => migrating.output().includes(waiting))
      await service.login(OWNER)
      await reader.end()
    }
    assert.equal((await migrating.exit).code, 0, migrating.output())
    isOver = true
    const statuses = countStatuses((await logins).flat())
    assert.deepEqual(Object.keys(statuses), ['200'], JSON.stringify(statuses))

    const [applied] = await deployment.database.rows(
      `select count(*) as count from kysely_migration where name = '${MADE_UP}'`,
    )
    assert.equal(Number(applied?.count), 1)
    await stop(service)
    const next = await deployment.start(NEXT_VERSION)
    assert.equal((await next.login(OWNER)).status, 200)
  })
}

test('a table of another program in the same schema is not locked', async () => {
  const deployment = await own(createDeployment('postgres'))
  const { config } = deployment.database
  assert.ok(config.engine === 'postgres')
  const other = new pg.Client(config.url)
  await other.connect()
  await other.query('create table of_another_program ()')
  await other.query('begin; select from of_another_program')
  const migrating = run({ ...deployment.env, ...NEXT_VERSION }, { ...MIGRATE, cwd: PROJECT })
  let isOver = false
  migrating.exit.then(() => {
    isOver = true
  })
  await until(async () => isOver || migrating.output().includes('waits for tables'))
  await other.end()
  assert.equal((await migrating.exit).code, 0)
  assert.doesNotMatch(migrating.output(), /waits for tables/)
})

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
    change: `update kysely_migration set name = '0001-initial' where name = '0100-initial'`,
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
