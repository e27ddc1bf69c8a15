// The most guesses at one email that are verified within any 24 hours: of the rules, and of every engine.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { DAY_MS, MINUTE_MS } from '../support/session-client.ts'
import { makeScopes, UNKNOWN_EMAIL } from './fixtures.ts'
import { findWorstDay } from './worst-day.ts'

const START = Date.parse('2030-01-01T00:00:00Z')

const emailScopes = makeScopes().filter(({ name }) => name === 'email')
const worst = findWorstDay(emailScopes)

test('an attacker that knows the rules gets 196 guesses in its best 24 hours', () => {
  assert.equal(worst.most, 196)
})

for (const engine of ENGINES) {
  test(`no 24 hours have more guesses on ${engine}`, async () => {
    const { store } = await openTestStore(engine)

    /** Guesses until an attempt is refused, up to `most` times. */
    async function guess(atMs: number, most: number): Promise<number> {
      const now = new Date(START + atMs)
      for (let guesses = 0; guesses < most; guesses++) {
        const { kind } = await store.attempts.reserve(emailScopes, UNKNOWN_EMAIL, now)
        if (kind !== 'admitted') return guesses
        await store.attempts.fail(emailScopes, null, now)
      }
      return most
    }

    // Two guesses, then as many as possible from shortly before the first ones are a day old.
    assert.equal(await guess(0, 2), 2)
    const late = 22.75 * 60 * MINUTE_MS
    await store.maintenance.purge(new Date(START + late))
    let inADay = 0
    for (let ms = 0; ms < DAY_MS; ms += 15 * MINUTE_MS) inADay += await guess(late + ms, Infinity)
    assert.ok(inADay <= worst.most, `${inADay} guesses`)

    let verified = 0
    for (const { atMs, count } of worst.guesses) verified += await guess(10 * DAY_MS + atMs, count)
    assert.equal(verified, worst.most, 'the best attack on the rules succeeds')
  })
}
