import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { isHashJob } from './hash-counter.ts'
import { startTestService } from './service.ts'

test('a login whose thread dies gets a 500, and the next one starts a new thread', async t => {
  const service = await startTestService('sqlite')
  t.after(() => service.stop())
  const email = await service.newUser()
  // The thread dies when it gets its job.
  const { postMessage } = Worker.prototype
  const posted = mock.method(
    Worker.prototype,
    'postMessage',
    function (this: Worker, message: object) {
      if (isHashJob(message)) void this.terminate()
      else postMessage.call(this, message)
    },
  )
  const { status, json } = await service.login(email, 'wrong')
  posted.mock.restore()
  assert.deepEqual([status, json.error.code], [500, 'INTERNAL_ERROR'])
  assert.equal(service.logged().filter(({ event }) => event === 'hashing.thread_lost').length, 1)

  for (let i = 0; i < 4; i++) assert.equal((await service.login(email, 'wrong')).status, 401)
})
