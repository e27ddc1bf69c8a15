// How many guesses at one account are verified in a day if the attacker never stops.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { startTestService } from '../support/service.ts'
import { MINUTE_MS } from '../support/session-client.ts'

/** A block lasts this long, so an attacker that returns earlier gains nothing. */
const STEP_MINUTES = 15
/** 100 failures, and one for every 15 minutes after the first ones. */
const ALLOWED = 195
/** Clients are told apart by this proxy's header: a TLS connection for each would take most of the time. */
const PROXY = { TRUST_PROXY: '127.0.0.1/32' }

// test/storage/worst-day.test.ts compares both engines with the best attack on the rules.
for (const engine of ENGINES_BY_RUN) {
  describe(`verified guesses at one email in a day, on ${engine}`, async () => {
    const service = await own(startTestService(engine, PROXY))

    for (const [clients, kind] of [
      [1, 'unknown'],
      [1000, 'known'],
    ] as const) {
      test(`${clients} clients, ${kind} email: ${ALLOWED}`, async () => {
        const email = kind === 'known' ? await service.newUser() : 'unknown@example.com'
        let turn = 0
        const guess = async () => {
          const client = turn++ % clients
          const address = `10.${clients % 256}.${Math.floor(client / 250)}.${(client % 250) + 1}`
          const headers = { 'X-Forwarded-For': address, 'X-Forwarded-Proto': 'https' }
          const body = { email, password: `guess ${turn}` }
          return (await service.call({ headers, body })).status
        }

        let verified = 0
        for (let minute = 0; minute < 24 * 60; minute += STEP_MINUTES) {
          let status = await guess()
          for (; status === 401; status = await guess()) verified++
          assert.equal(status, 429)
          service.advance(STEP_MINUTES * MINUTE_MS)
        }
        assert.equal(verified, ALLOWED)
      })
    }
  })
}
