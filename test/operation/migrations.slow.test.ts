// The next version migrates the tables while an instance of this one serves logins.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { ENGINES } from '../support/engines.ts'
import { MADE_UP, NEXT_VERSION } from '../support/made-up-migration.ts'
import { createDeployment, PROJECT, run, until } from '../support/process.ts'
import { countStatuses, UNLIMITED } from '../support/service.ts'

const OWNER = 'owner@example.com'
const CLIENTS = 4
const MIGRATE = { command: [process.execPath, 'launch.cjs', 'src/main.ts', 'database', 'migrate'] }

for (const engine of ENGINES) {
  test(`beside an instance that serves logins, on ${engine}`, async t => {
    const deployment = await createDeployment(engine, UNLIMITED)
    t.after(deployment.remove)
    await deployment.addUser(OWNER)
    const service = await deployment.start()
    const migrate = () => run({ ...deployment.env, ...NEXT_VERSION }, { ...MIGRATE, cwd: PROJECT })

    let isOver = false
    const logins = Array.from({ length: CLIENTS }, async () => {
      const answers = [await service.login(OWNER)]
      while (!isOver) answers.push(await service.login(OWNER))
      return [...answers, await service.login(OWNER)]
    })
    const { config } = deployment.database
    if (config.engine === 'postgres') {
      // As a backup does.
      const reader = new pg.Client(config.url)
      await reader.connect()
      await reader.query('begin; select from users')
      const waiting = migrate()
      await until(async () =>
        waiting.output().includes(`the migration ${MADE_UP} waits for tables`),
      )
      await service.login(OWNER)
      await reader.end()
      assert.equal((await waiting.exit).code, 0)
    } else {
      const { exit, output } = migrate()
      assert.equal((await exit).code, 0, output())
    }
    isOver = true
    const statuses = countStatuses((await Promise.all(logins)).flat())
    assert.deepEqual(Object.keys(statuses), ['200'], JSON.stringify(statuses))

    const [applied] = await deployment.database.rows(
      `select count(*) as count from kysely_migration where name = '${MADE_UP}'`,
    )
    assert.equal(Number(applied?.count), 1)
    service.kill('SIGTERM')
    await service.exit
    const next = await deployment.start(NEXT_VERSION)
    assert.equal((await next.login(OWNER)).status, 200)
  })
}
