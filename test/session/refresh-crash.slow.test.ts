// Kills a process during rotations while another process uses the same database.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import fc from 'fast-check'
import { decodeJwt } from 'jose'
import { ENGINES, type TestDatabase } from '../support/engines.ts'
import {
  createDeployment,
  type Deployment,
  type ServiceProcess,
  timed,
} from '../support/process.ts'
import { casesOf } from '../support/proof.ts'
import { type Answer, countStatuses } from '../support/service.ts'

const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 2 ** 31)
const KILLS_EACH = casesOf(12)
const SESSIONS = 3

// Both engines at once: most of the time goes into starting processes.
describe(`refresh and SIGKILL with CRASH_SEED=${SEED}`, { concurrency: true }, () => {
  for (const engine of ENGINES) {
    test(`after a kill during a rotation on ${engine}, the old token gets one successor, which works`, async t => {
      const deployment = await createDeployment(engine, {
        MAX_SESSIONS_PER_USER: String(2 * KILLS_EACH * SESSIONS),
      })
      try {
        const met = await killInRotations(deployment)
        t.diagnostic(JSON.stringify(met))
        assert.ok(met.cutOff > 0 && met.answered > 0, 'all kills came too early or too late')
      } finally {
        await deployment.remove()
      }
    })
  }
})

async function killInRotations({ database, addUser, start }: Deployment) {
  const met = { answered: 0, cutOff: 0, cutOffButRotated: 0 }
  await addUser('kate@example.com')

  const percents = fc.integer({ min: 0, max: 120 })
  const kills = fc.sample(fc.noBias(percents), { seed: SEED, numRuns: KILLS_EACH })
  let victim = await start()
  for (const [index, percent] of kills.entries()) {
    const { tokens, roundMs } = await openSessions(victim)
    const refreshes = tokens.map(token => refresh(victim, token))
    const refreshing = Promise.allSettled(refreshes)
    // The first kill comes after an answer, and the second one before: chance might choose only one of both.
    if (index === 0) await Promise.race(refreshes)
    else await setTimeout(index === 1 ? 0 : (percent / 100) * roundMs)
    victim.kill('SIGKILL')
    const results = await refreshing
    await victim.exit
    const survivor = await start()

    const rotated = await idsOf(
      database,
      'select id from refresh_tokens where successor_id is not null',
    )
    for (const [session, token] of tokens.entries()) {
      const result = results[session]
      const again = await refresh(survivor, token)
      assert.equal(again.status, 200, `kill ${index}: the old token does not work: ${again.text}`)
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
    database,
    'select session_id as id from refresh_tokens where revoked_at is null',
  )
  assert.equal(live.length, KILLS_EACH * SESSIONS)
  assert.equal(new Set(live).size, live.length, 'two live tokens of one session')
  return met
}

/** Logs in and refreshes twice, to warm the process up; `roundMs` is the time of the last round. */
async function openSessions(service: ServiceProcess) {
  const opening = Array.from({ length: SESSIONS }, () => service.login('kate@example.com'))
  let answers = await Promise.all(opening)
  let roundMs = 0
  for (let round = 0; round < 2; round++) {
    assert.deepEqual(countStatuses(answers), { 200: SESSIONS })
    const refreshed = await timed(
      Promise.all(answers.map(answer => refresh(service, tokenOf(answer)))),
    )
    answers = refreshed.value
    roundMs = refreshed.ms
  }
  return { tokens: answers.map(tokenOf), roundMs }
}

const idsOf = async ({ rows }: TestDatabase, statement: string) =>
  (await rows(statement)).map(({ id }) => id)
const refresh = (service: ServiceProcess, refreshToken: string) =>
  service.call({ path: '/api/v1/auth/refresh', body: { refreshToken } })
const tokenOf = ({ json }: Answer) => json.data.refreshToken
