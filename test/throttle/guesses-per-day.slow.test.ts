// How many guesses at one account are verified in a day if the attacker never stops.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { ENGINES } from '../support/engines.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** A block lasts this long, so an attacker that returns earlier gains nothing. */
const STEP_MINUTES = 15
const STEPS_PER_DAY = (24 * 60) / STEP_MINUTES
/** After this many answers 429 in a row the attacker assumes that the email is blocked, and waits. */
const PATIENCE = 4

/** Per number of clients: 100 failures, and one for every 15 minutes after the first ones. */
const ALLOWED = { 1: 195, 1000: 195 }
/** Clients are told apart by this proxy's header: a TLS connection for each would take most of the time. */
const PROXY = { TRUST_PROXY: '127.0.0.1/32' }

for (const engine of ENGINES) {
  describe(`verified guesses at one email in a day, on ${engine}`, () => {
    let service: TestService
    before(async () => {
      service = await startTestService(engine, PROXY)
    })
    after(() => service.stop())

    for (const [index, [clients, allowed]] of Object.entries(ALLOWED).entries()) {
      for (const kind of ['known', 'unknown']) {
        test(`${clients} clients, ${kind} email: ${allowed}`, async () => {
          const email = `${kind}${clients}@example.com`
          if (kind === 'known') await service.addUser(email)
          const network = `10.${2 * index + (kind === 'known' ? 0 : 1)}`
          assert.equal(await guessForADay(service, email, network, Number(clients)), allowed)
        })
      }
    }
  })
}

async function guessForADay(
  service: TestService,
  email: string,
  network: string,
  clients: number,
): Promise<number> {
  let verified = 0
  let turn = 0
  for (let step = 0; step < STEPS_PER_DAY; step++) {
    for (let blocks = 0; blocks < Math.min(PATIENCE, clients); ) {
      const client = turn++ % clients
      const address = `${network}.${Math.floor(client / 250)}.${(client % 250) + 1}`
      const { status } = await service.call({
        headers: { 'X-Forwarded-For': address, 'X-Forwarded-Proto': 'https' },
        body: { email, password: `guess ${turn}` },
      })
      if (status === 401) {
        verified++
        blocks = 0
      } else {
        assert.equal(status, 429)
        blocks++
      }
    }
    service.advance(STEP_MINUTES * 60_000)
  }
  return verified
}
