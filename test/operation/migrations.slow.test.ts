// The next version migrates the tables while an instance of this one serves logins.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { ENGINES } from '../support/engines.ts'
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
