import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { until } from './process.ts'
import { startTestService } from './service.ts'

test('a login whose thread dies gets a 500, and the next one starts a new thread', async t => {
  const service = await startTestService('sqlite', { BCRYPT_COST: '10' })
  t.after(() => service.stop())
  const email = await service.newUser()
  const posted = mock.method(Worker.prototype, 'postMessage')
  t.after(() => posted.mock.restore())

  const failing = service.login(email, 'wrong')
  await until(async () => posted.mock.callCount() > 0)
  const thread = posted.mock.calls[0]?.this
  assert.ok(thread instanceof Worker)
  await thread.terminate()
  const { status, json } = await failing
  assert.deepEqual([status, json.error.code], [500, 'INTERNAL_ERROR'])
  assert.equal(service.logged().filter(({ event }) => event === 'hashing.thread_lost').length, 1)

  for (let i = 0; i < 4; i++) assert.equal((await service.login(email, 'wrong')).status, 401)
})
