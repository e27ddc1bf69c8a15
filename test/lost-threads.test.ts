import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { isHashJob } from './hash-counter.ts'
import { until } from './process.ts'
import { startTestService } from './service.ts'

const THREADS = [
  ['that hashes its password', isHashJob, 'hashing.thread_lost'],
  ['that uses SQLite', (message: object) => !isHashJob(message), 'database.connection_lost'],
] as const

for (const [thread, isItsMessage, lost] of THREADS) {
  test(`a login gets a 500 if the thread ${thread} dies, and the next one starts a new thread`, async t => {
    const service = await startTestService('sqlite')
    t.after(() => service.stop())
    const email = await service.newUser()
    // The thread dies when it gets its message.
    const { postMessage } = Worker.prototype
    const posted = mock.method(
      Worker.prototype,
      'postMessage',
      function (this: Worker, message: object) {
        if (isItsMessage(message)) void this.terminate()
        else postMessage.call(this, message)
      },
    )
    const { status, json } = await service.login(email, 'wrong')
    posted.mock.restore()
    assert.deepEqual([status, json.error.code], [500, 'INTERNAL_ERROR'])
    assert.equal(service.logged().filter(({ event }) => event === lost).length, 1)

    // On a busy machine the new thread may start too late for the next login.
    await until(async () => (await service.login(email, 'wrong')).status === 401)
    for (let i = 0; i < 3; i++) assert.equal((await service.login(email, 'wrong')).status, 401)
  })
}
