// Kills a process during rotations while another process uses the same database.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import fc from 'fast-check'
import { decodeJwt } from 'jose'
import { ENGINES } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import { createDeployment, type ServiceProcess, timed } from '../support/process.ts'
import { IS_FULL } from '../support/proof.ts'
import { type Answer, countStatuses } from '../support/service.ts'
import { AUTH } from '../support/session-client.ts'

const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 2 ** 31)
const KILLS_EACH = IS_FULL ? 12 : 2
/** One half of them is refreshed before the other, so that a kill comes after an answer. */
const SESSIONS = 6

// Both engines at once: most of the time goes into starting processes.
describe(`refresh and SIGKILL with CRASH_SEED=${SEED}`, { concurrency: true }, () => {
  for (const engine of ENGINES) {
    test(`after a kill during a rotation on ${engine}, the old token gets one successor, which works`, async t => {
      const env = { MAX_SESSIONS_PER_USER: String(2 * KILLS_EACH * SESSIONS) }
      const { database, addUser, start } = await own(createDeployment(engine, env))
      const idsOf = async (query: string) => (await database.rows(query)).map(({ id }) => id)
      const met = { answered: 0, cutOff: 0, cutOffButRotated: 0 }
      await addUser('kate@example.com')

      const percents = fc.integer({ min: 0, max: 120 })
      const kills = fc.sample(fc.noBias(percents), { seed: SEED, numRuns: KILLS_EACH })
      let victim = await start()
      for (const [index, percent] of kills.entries()) {
        const { tokens, roundMs } = await openSessions(victim)
        const rotate = (token: string) => refresh(victim, token)
        const early = tokens.slice(SESSIONS / 2).map(rotate)
        await Promise.race(early)
        const refreshing = Promise.allSettled([
          ...tokens.slice(0, SESSIONS / 2).map(rotate),
          ...early,
        ])
        // The first kill comes before the answers of the others: chance might let all come too late.
        await setTimeout(index === 0 ? 0 : (percent / 100) * roundMs)
        victim.kill('SIGKILL')
        const results = await refreshing
        await victim.exit
        const survivor = await start()

        const rotated = await idsOf('select id from refresh_tokens where successor_id is not null')
        for (const [session, token] of tokens.entries()) {
          const result = results[session]
          const again = await refresh(survivor, token)
          assert.equal(
            again.status,
            200,
            `kill ${index}: the old token does not work: ${again.text}`,
          )
          if (result?.status === 'fulfilled') {
            met.answered++
            assert.equal(result.value.status, 200, result.value.text)
            assert.equal(tokenOf(again), tokenOf(result.value), `kill ${index}: two successors`)
          } else {
            met.cutOff++
            if (rotated.includes(decodeJwt(token).jti)) met.cutOffButRotated++
          }
          const next = await refresh(survivor, tokenOf(again))
          assert.equal(next.status, 200, `kill ${index}: the successor does not work: ${next.text}`)
        }
        victim = survivor
      }
      const live = await idsOf(
        'select session_id as id from refresh_tokens where revoked_at is null',
      )
      assert.equal(live.length, KILLS_EACH * SESSIONS)
      assert.equal(new Set(live).size, live.length, 'two live tokens of one session')
      t.diagnostic(JSON.stringify(met))
      assert.ok(met.cutOff > 0 && met.answered > 0, 'all kills came too early or too late')
    })
  }
})

/** Logs in and refreshes twice, to warm the process up; `roundMs` is the time of the last round. */
async function openSessions(service: ServiceProcess) {
  let answers = await inParallel(SESSIONS, () => service.login('kate@example.com'))
  let roundMs = 0
  for (let round = 0; round < 2; round++) {
    assert.deepEqual(countStatuses(answers), { 200: SESSIONS })
    const refreshing = answers.map(answer => refresh(service, tokenOf(answer)))
    ;({ value: answers, ms: roundMs } = await timed(Promise.all(refreshing)))
  }
  return { tokens: answers.map(tokenOf), roundMs }
}

const refresh = (service: ServiceProcess, refreshToken: string) =>
  service.call({ path: `${AUTH}/refresh`, body: { refreshToken } })
const tokenOf = ({ json }: Answer) => json.data.refreshToken
