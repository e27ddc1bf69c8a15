import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { byEmail, changeAt, insertTestUser } from '../storage/fixtures.ts'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'

const EMAIL = 'many@example.com'
const START = new Date('2030-01-01T00:00:00.000Z')

for (const engine of ENGINES) {
  describe(`many sessions on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)

    test('a user with more sessions than a statement may have parameters can be deactivated and deleted', async () => {
      const id = await insertTestUser(store, EMAIL, START)
      await fillSessions(database, id, 1_000, START)
      await fillSessions(database, id, 33_000, START, { endedAt: START })
      assert.equal(await byEmail(store).deactivate(EMAIL, changeAt(START)), true)
      assert.deepEqual(await store.sessions.listLive(id, { afterId: null, limit: 9 }, START), [])
      assert.equal(await byEmail(store).delete(EMAIL, changeAt()), 0)
    })
  })
}
