// One real process through its whole life. `npm run test:process` has the many cases of each step.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDeployment } from './process.ts'
import { WITH_THREADS } from './service.ts'
import { migrate, migrationNames, useRelease } from './upgrade/releases.ts'

const servePrevious = useRelease('previous')

test('tables of the previous release are updated; the service starts, logs in, reloads its files and ends', async t => {
  const deployment = await createDeployment('sqlite', WITH_THREADS, undefined, false)
  t.after(() => deployment.remove())
  const previous = await deployment.start({}, { command: servePrevious() })
  const before = await migrationNames(deployment)
  previous.kill('SIGTERM')
  assert.deepEqual(await previous.exit, { code: 0, signal: null })

  const migration = migrate(deployment)
  assert.deepEqual(await migration.exit, { code: 0, signal: null }, migration.output())
  assert.ok((await migrationNames(deployment)).length > before.length)

  const service = await deployment.start()
  await deployment.addUser('kate@example.com')
  assert.equal((await service.login('kate@example.com')).status, 200)
  service.kill('SIGHUP')
  await service.line('keys.reloaded')
  service.kill('SIGTERM')
  assert.deepEqual(await service.exit, { code: 0, signal: null })
})
