// The clock of the database is set while no connection breaks: an instance notices it within a minute.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { moveDatabaseClock, replaceDatabaseClock } from '../support/moved-clock.ts'
import { eventsOf, own } from '../support/own.ts'
import { createDeployment, until } from '../support/process.ts'

test('the offset is measured every minute', async () => {
  const deployment = await own(createDeployment('postgres'))
  await moveDatabaseClock(deployment.database, 0)
  const service = await deployment.start()
  await replaceDatabaseClock(
    deployment.database,
    `select pg_catalog.clock_timestamp() + interval '10 s'`,
  )
  await until(async () => eventsOf(service.lines()).includes('clock.wrong'), 120_000)
  assert.equal(eventsOf(service.lines()).includes('database.connection_lost'), false)
})
