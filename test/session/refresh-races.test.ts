import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { decodeJwt } from 'jose'
import { digestOf } from '../../src/system/identifiers.ts'
import { byEmail, changeAt, makeSuccessor } from '../storage/fixtures.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { eventsOf, inParallel, own } from '../support/own.ts'
import {
  type Answer,
  countStatuses,
  startTestService,
  type TestService,
} from '../support/service.ts'
import { AUTH, bearer, DAY_MS, startSessionService } from '../support/session-client.ts'

/** Repetitions of a race; which side wins is random. */
const ROUNDS = 12
const GRACE_MS = 60_000

for (const engine of ENGINES_BY_RUN) {
  describe(`refreshes at the same time on ${engine}`, async () => {
    const first = await startSessionService(engine)
    const second = await own(startTestService(engine, {}, first))
    after(first.stop)

    const refresh = (service: TestService, refreshToken = '') =>
      service.call({ path: `${AUTH}/refresh`, body: { refreshToken } })
    /** The tokens and the instances take turns. */
    const refreshAtOnce = (tokens: string[], times: number) =>
      inParallel(times, index =>
        refresh(index % 2 ? second : first, tokens[Math.floor(index / 2) % tokens.length]),
      )

    /** A user with the tokens of so many sessions. */
    async function newUser(sessions = 1) {
      const email = await first.newUser()
      const login = await first.programLogin(email)
      const tokens = [login.refreshToken]
      while (tokens.length < sessions) tokens.push((await first.programLogin(email)).refreshToken)
      return { email, userId: login.userId, tokens, token: login.refreshToken }
    }
    const tokenOf = ({ json }: Answer) => json.data.refreshToken
    const idOf = (token: string) => String(decodeJwt(token).jti)
    const isAlive = async ({ json }: Answer) =>
      (await first.get('/session', bearer(json.data.accessToken))).status === 200

    async function idsOf(table: string, userId: string, condition: string): Promise<Set<unknown>> {
      const rows = await first.database.rows(
        `select id from ${table} where user_id = '${userId}' and ${condition}`,
      )
      return new Set(rows.map(({ id }) => id))
    }
    /** Tokens that are not replaced, of sessions that have not ended. */
    const liveTokens = (userId: string) =>
      idsOf(
        'refresh_tokens',
        userId,
        'revoked_at is null and session_id in (select id from sessions where ended_at is null)',
      )

    async function countDeadlocks(): Promise<number> {
      if (engine === 'sqlite') return 0
      const [row] = await first.database.rows(
        'select deadlocks from pg_stat_database where datname = current_database()',
      )
      return Number(row?.deadlocks)
    }
    /** Fails on logged errors and deadlocks, even if a retry succeeded. Returns the logged lines. */
    async function withoutFault(action: () => Promise<void>) {
      const deadlocks = await countDeadlocks()
      const before = [first.logged().length, second.logged().length]
      await action()
      const logged = [first, second].flatMap((it, index) => it.logged().slice(before[index]))
      const faults = logged.filter(({ err }) => err !== undefined)
      assert.deepEqual(faults, [])
      assert.equal(await countDeadlocks(), deadlocks)
      return logged
    }

    test('two sessions of one user that are refreshed 40 times at once get one successor each, and end separately', async () => {
      const { userId, tokens } = await newUser(2)
      await withoutFault(async () => {
        const answers = await refreshAtOnce(tokens, 40)
        assert.deepEqual(countStatuses(answers), { 200: 40 })
        for (const { headers } of answers) assert.equal(headers['set-cookie'], undefined)
        const successors = new Set(answers.map(tokenOf))
        assert.deepEqual([successors.size, new Set([...tokens, ...successors]).size], [2, 4])
        assert.deepEqual(await liveTokens(userId), new Set([...successors].map(idOf)))
        for (const answer of answers.slice(0, 4)) assert.equal(await isAlive(answer), true)

        const [ended = '', kept = ''] = successors
        const [, next] = await Promise.all([first.logout(ended), refresh(second, kept)])
        assert.equal(next.status, 200)
        assert.deepEqual(await liveTokens(userId), new Set([idOf(tokenOf(next))]))
        assert.equal(await isAlive(next), true)
        assert.equal((await refresh(first, ended)).status, 401)
      })
    })

    test('20 replays at once after the grace period end the session, and the reuse is logged once', async () => {
      const { userId, token } = await newUser()
      const { token: untouched } = await newUser()
      const successor = tokenOf(await refresh(first, token))
      for (const service of [first, second]) service.advance(GRACE_MS + 1)
      const logged = await withoutFault(async () => {
        assert.deepEqual(countStatuses(await refreshAtOnce([token], 20)), { 401: 20 })
      })
      for (const event of ['session.reuse_detected', 'session.ended']) {
        assert.equal(eventsOf(logged).filter(name => name === event).length, 1, event)
      }
      assert.equal((await refresh(first, successor)).status, 401)
      assert.deepEqual(await liveTokens(userId), new Set())
      assert.equal((await refresh(first, untouched)).status, 200)
    })

    const change = () => changeAt(second.now())
    const logout = (refreshToken = '') =>
      second.call({ path: `${AUTH}/logout`, body: { refreshToken } })
    type End = (email: string, token?: string) => Promise<unknown>
    const OPPONENTS: [name: string, sessions: number, end: End][] = [
      ['a logout', 1, (_, token) => logout(token)],
      ['deactivating the user', 3, email => byEmail(second.store).deactivate(email, change())],
      ['deleting the user', 3, email => byEmail(second.store).delete(email, change())],
    ]
    for (const [name, sessions, end] of OPPONENTS) {
      test(`${name} at the same time as refreshes leaves no live token or session`, async () => {
        await withoutFault(async () => {
          for (let round = 0; round < ROUNDS; round++) {
            const { email, userId, tokens } = await newUser(sessions)
            const refreshing = refreshAtOnce(tokens, 6)
            // A longer delay in each round: from before the first rotation to after the last.
            await setTimeout(round)
            await end(email, tokens[0])
            const answers = await refreshing
            const { 200: won = 0, 401: lost = 0, ...others } = countStatuses(answers)
            assert.deepEqual(others, {}, `${won} won, ${lost} lost`)
            const refreshed = answers.filter(({ status }) => status === 200)
            const successors = new Set(refreshed.map(tokenOf))
            assert.ok(successors.size <= sessions)
            assert.deepEqual(await liveTokens(userId), new Set())
            assert.deepEqual(await idsOf('sessions', userId, 'ended_at is null'), new Set())
            for (const answer of refreshed) assert.equal(await isAlive(answer), false)
            for (const token of [...tokens, ...successors]) {
              assert.equal((await refresh(first, token)).status, 401)
            }
          }
        })
      })
    }

    test('a second rotation of a token fails and does not change the session', async () => {
      const { userId, token } = await newUser()
      await refresh(first, token)
      const session = () =>
        first.database.rows(`select * from sessions where user_id = '${userId}'`)
      const before = await session()
      const tomorrow = new Date(first.now().getTime() + DAY_MS)
      const late = makeSuccessor(tomorrow, new Date(tomorrow.getTime() + DAY_MS))
      const used = await first.store.refreshTokens.use(idOf(token), digestOf(token), late, tomorrow)
      assert.equal(used.kind, 'found')
      assert.deepEqual(await session(), before)
    })
  })
}
