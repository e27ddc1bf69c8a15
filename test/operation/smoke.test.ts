// One real process through its whole life. `npm run test:slow` has the many cases of each step.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { own } from '../support/own.ts'
import { createDeployment, stop } from '../support/process.ts'
import { WITH_THREADS } from '../support/service.ts'

test('the service starts, logs in, reloads its files and ends', async () => {
  const deployment = await own(createDeployment('sqlite', WITH_THREADS))
  const service = await deployment.start()
  await deployment.addUser('kate@example.com')
  assert.equal((await service.login('kate@example.com')).status, 200)
  service.kill('SIGHUP')
  await service.line('keys.reloaded')
  await stop(service)
})
