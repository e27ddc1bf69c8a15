// Refreshes whose answer is lost: a process is killed while another one uses the same database, or the database stalls
// at the commit, as when its synchronous standby dies: the rotation is done, and the caller gets a 500.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import fc from 'fast-check'
import { decodeJwt } from 'jose'
import { ENGINES, nameStandby } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import { NO_FSYNC, startPostgres } from '../support/postgres-server.ts'
import { createDeployment, type ServiceProcess, timed, until } from '../support/process.ts'
import { IS_FULL } from '../support/proof.ts'
import { type Answer, countStatuses, PASSWORD, startTestService } from '../support/service.ts'
import { AUTH, SECOND_MS } from '../support/session-client.ts'

const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 2 ** 31)
const KILLS_EACH = IS_FULL ? 12 : 2
/** One half of them is refreshed before the other, so that a kill comes after an answer. */
const SESSIONS = 6
/** Refreshes that wait for a standby. */
const STALLED = 8

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
        // The first kill comes before the others are sent: chance might let all come too late.
        if (index > 0) await setTimeout((percent / 100) * roundMs)
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

describe('while commits of PostgreSQL wait for a standby', async () => {
  const server = await startPostgres(NO_FSYNC)
  const service = await own(startTestService('postgres', {}, null, server.url))
  after(server.stop)

  const login = async () => tokenOf(await service.login(await service.newUser(), PASSWORD))
  const refresh = (refreshToken: string, requestId: string, from: string) =>
    service.call({
      path: `${AUTH}/refresh`,
      headers: { 'X-Request-ID': requestId },
      body: { refreshToken },
      from,
    })

  test('a rotation without an answer is repeated 30 seconds later, from another address: no session ends', async () => {
    const tokens = await inParallel(STALLED, login)
    const ids = tokens.map(() => randomUUID())
    const refreshAll = (from: string) =>
      inParallel(STALLED, index => refresh(tokens[index] ?? '', ids[index] ?? '', from))
    const lost = tokens.map(token => `'${decodeJwt(token).jti}'`).join()
    const successors = async () => {
      const rows = await service.database.rows(
        `select successor_id from refresh_tokens where successor_id is not null and id in (${lost})`,
      )
      return rows.map(({ successor_id }) => String(successor_id)).toSorted()
    }
    let probe = await login()
    await nameStandby(server, 'missing')
    await until(async () => {
      const { status, json } = await refresh(probe, randomUUID(), '127.0.0.1')
      probe = json.data?.refreshToken
      return status === 500
    })
    assert.deepEqual(countStatuses(await refreshAll('127.0.0.1')), { 500: STALLED })

    service.advance(30 * SECOND_MS)
    await nameStandby(server, '')
    await until(async () => (await successors()).length === STALLED)
    const expected = await successors()
    const repeated = await refreshAll('127.0.0.2')
    assert.deepEqual(countStatuses(repeated), { 200: STALLED })
    const got = repeated.map(tokenOf)
    assert.deepEqual(got.map(token => decodeJwt(token).jti).toSorted(), expected)
    const again = got.map(token => refresh(token, randomUUID(), '127.0.0.2'))
    assert.deepEqual(countStatuses(await Promise.all(again)), { 200: STALLED })
  })
})
