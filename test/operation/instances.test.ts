import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { countStatuses, PASSWORD, startTestService } from '../support/service.ts'

for (const engine of ENGINES_BY_RUN) {
  test(`of 200 wrong guesses at two instances at once, 5 are hashed, and 50 right logins elsewhere succeed, on ${engine}`, async context => {
    const first = await startTestService(engine)
    const second = await startTestService(engine, {}, first)
    context.after(async () => {
      await second.stop()
      await first.stop()
    })
    await first.addUser('kate@example.com')
    const hashes = await countHashes(async () => {
      const guesses = Array.from({ length: 200 }, (_, i) =>
        (i % 2 === 0 ? first : second).login('kate@example.com', `guess ${i}`),
      )
      assert.deepEqual(countStatuses(await Promise.all(guesses)), { 401: 5, 429: 195 })
    })
    assert.equal(hashes, 5)

    const right = Array.from({ length: 50 }, (_, i) =>
      (i % 2 === 0 ? first : second).login('kate@example.com', PASSWORD, '127.0.0.5'),
    )
    assert.deepEqual(countStatuses(await Promise.all(right)), { 200: 50 })
  })
}
