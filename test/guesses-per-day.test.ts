// How many guesses at one account are verified in a day, however patient the attacker is.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ENGINES } from './engines.ts'
import { startTestService, type TestService } from './service.ts'

/** A wait of the throttle: coming back earlier gains nothing. */
const STEP_MINUTES = 15
const STEPS_PER_DAY = (24 * 60) / STEP_MINUTES
/** After so many refusals in a row the attacker takes the email for blocked and waits. */
const PATIENCE = 4

/** By addresses: 100 failures, then one in 15 minutes; 5 in 15 minutes reach the 100 later than 20 do. */
const ALLOWED = { 1: 176, 4: 191, 1000: 191 }

for (const engine of ENGINES) {
  describe(`guesses at one email in a day, on ${engine}`, () => {
    for (const [addresses, allowed] of Object.entries(ALLOWED)) {
      for (const kind of ['known', 'unknown']) {
        test(`${addresses} addresses, ${kind} email: ${allowed}`, async context => {
          const service = await startTestService(engine)
          context.after(() => service.stop())
          if (kind === 'known') await service.addUser('target@example.com')
          const guesses = await guessForADay(service, Number(addresses))
          context.diagnostic(`${engine}: ${guesses} verified guesses from ${addresses} addresses`)
          assert.equal(guesses, allowed)
        })
      }
    }
  })
}

async function guessForADay(service: TestService, addresses: number): Promise<number> {
  let verified = 0
  let turn = 0
  for (let step = 0; step < STEPS_PER_DAY; step++) {
    for (let refusals = 0; refusals < Math.min(PATIENCE, addresses); ) {
      const client = turn++ % addresses
      const from = `127.2.${Math.floor(client / 250)}.${(client % 250) + 1}`
      const { status } = await service.login('target@example.com', `guess ${turn}`, from)
      if (status === 401) {
        verified++
        refusals = 0
      } else {
        assert.equal(status, 429)
        refusals++
      }
    }
    service.advance(STEP_MINUTES * 60_000)
  }
  return verified
}
