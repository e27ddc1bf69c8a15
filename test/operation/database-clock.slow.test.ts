// The clock of the database is set while no connection breaks: an instance notices it within a minute.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { moveDatabaseClock, replaceDatabaseClock } from '../support/moved-clock.ts'
import { createDeployment, until } from '../support/process.ts'

test('the offset is measured every minute', async context => {
  const deployment = await createDeployment('postgres')
  context.after(() => deployment.remove())
  await moveDatabaseClock(deployment.database, 0)
  const service = await deployment.start()
  const eventsOf = () => service.lines().map(({ event }) => event)
  await replaceDatabaseClock(
    deployment.database,
    `select pg_catalog.clock_timestamp() + interval '10 s'`,
  )
  await until(async () => eventsOf().includes('clock.wrong'), 120_000)
  assert.equal(eventsOf().includes('database.connection_lost'), false)
})
