import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { isHashJob } from '../support/hash-counter.ts'
import { own } from '../support/own.ts'
import { until } from '../support/process.ts'
import { startTestService, UNLIMITED, WITH_THREADS } from '../support/service.ts'

const THREADS = [
  ['that hashes its password', isHashJob, 'hashing.thread_lost'],
  ['that uses SQLite', (message: object) => !isHashJob(message), 'database.connection_lost'],
] as const

for (const [thread, isItsMessage, lost] of THREADS) {
  test(`a login gets a 500 if the thread ${thread} dies, and the next one starts a new thread`, async t => {
    // The attempt of a thread that died stays pending, and would use up the failures of the email.
    const service = await own(startTestService('sqlite', { ...WITH_THREADS, ...UNLIMITED }))
    const email = await service.newUser()
    const { postMessage } = Worker.prototype
    const dying = t.mock.method(Worker.prototype, 'postMessage', send)
    function send(this: Worker, message: object) {
      if (isItsMessage(message)) void this.terminate()
      else postMessage.call(this, message)
    }
    const { status, json } = await service.login(email, 'wrong')
    dying.mock.restore()
    assert.deepEqual([status, json.error.code], [500, 'INTERNAL_ERROR'])
    const countLost = () => service.logged().filter(({ event }) => event === lost).length
    assert.equal(countLost(), 1)

    // On a busy machine the new thread may start too late for the next login.
    for (let i = 0; i < 4; i++) {
      await until(async () => (await service.login(email, 'wrong')).status === 401)
    }
    assert.equal(countLost(), 1)
  })
}
