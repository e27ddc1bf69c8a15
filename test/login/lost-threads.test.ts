import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
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
  test(`a login gets a 500 if the thread ${thread} dies, and the next one starts a new thread`, async () => {
    // The attempt of a thread that died stays pending, and would use up the failures of the email.
    const service = await own(startTestService('sqlite', { ...WITH_THREADS, ...UNLIMITED }))
    const email = await service.newUser()
    const { status, json } = await whileThreadsDie(isItsMessage, () =>
      service.login(email, 'wrong'),
    )
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

/** During the action, a thread dies when it gets a message that `isMeant` chooses. */
async function whileThreadsDie<T>(
  isMeant: (message: object) => boolean,
  action: () => Promise<T>,
): Promise<T> {
  const { postMessage } = Worker.prototype
  const posted = mock.method(
    Worker.prototype,
    'postMessage',
    function (this: Worker, message: object) {
      if (isMeant(message)) void this.terminate()
      else postMessage.call(this, message)
    },
  )
  try {
    return await action()
  } finally {
    posted.mock.restore()
  }
}
