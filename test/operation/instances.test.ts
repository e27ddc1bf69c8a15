import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { inParallel, own } from '../support/own.ts'
import { countStatuses, PASSWORD, startTestService } from '../support/service.ts'

for (const engine of ENGINES_BY_RUN) {
  test(`of 200 wrong guesses at two instances at once, 5 are hashed, and 50 right logins elsewhere succeed, on ${engine}`, async () => {
    const first = await startTestService(engine)
    const second = await own(startTestService(engine, {}, first))
    after(first.stop)
    await first.addUser('kate@example.com')
    const hashes = await countHashes(async () => {
      const guesses = await inParallel(200, i =>
        (i % 2 === 0 ? first : second).login('kate@example.com', `guess ${i}`),
      )
      assert.deepEqual(countStatuses(guesses), { 401: 5, 429: 195 })
    })
    assert.equal(hashes, 5)

    const right = await inParallel(50, i =>
      (i % 2 === 0 ? first : second).login('kate@example.com', PASSWORD, '127.0.0.5'),
    )
    assert.deepEqual(countStatuses(right), { 200: 50 })
  })
}
