import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { decodeJwt } from 'jose'
import { digestOf } from '../../src/system/identifiers.ts'
import { byEmail, changeAt, makeSuccessor } from '../storage/fixtures.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import {
  type Answer,
  countStatuses,
  PASSWORD,
  startTestService,
  type TestService,
} from '../support/service.ts'

const PARALLEL = 20
/** Repetitions of a race; which side wins is random. */
const ROUNDS = 12
const GRACE_MS = 60_000
const DAY_MS = 24 * 3600_000

for (const engine of ENGINES_BY_RUN) {
  describe(`refreshes at the same time on ${engine}`, () => {
    let first: TestService
    let second: TestService
    before(async () => {
      first = await startTestService(engine)
      second = await startTestService(engine, {}, first)
    })
    after(async () => {
      await second.stop()
      await first.stop()
    })

    const refresh = (service: TestService | undefined, refreshToken: string) => {
      assert.ok(service)
      return service.call({ path: '/api/v1/auth/refresh', body: { refreshToken } })
    }
    const logout = (service: TestService, refreshToken: string) =>
      service.call({ path: '/api/v1/auth/logout', body: { refreshToken } })
    /** Refreshes all at once: the tokens and the services take turns. */
    const refreshAtOnce = (tokens: string[], services: TestService[], times: number) =>
      Promise.all(
        Array.from({ length: times }, (_, i) => {
          const token = tokens[Math.floor(i / services.length) % tokens.length]
          return refresh(services[i % services.length], token ?? '')
        }),
      )

    async function newUser(): Promise<{ email: string; userId: string }> {
      const email = `${randomUUID()}@example.com`
      return { email, userId: await first.addUser(email) }
    }
    async function login(email: string): Promise<string> {
      const answer = await first.login(email, PASSWORD)
      assert.equal(answer.status, 200)
      return tokenOf(answer)
    }
    const tokenOf = ({ json }: Answer) => json.data.refreshToken
    const idOf = (token: string) => String(decodeJwt(token).jti)
    async function isAlive({ json }: Answer): Promise<boolean> {
      const headers = { authorization: `Bearer ${json.data.accessToken}` }
      const answer = await first.call({ method: 'GET', path: '/api/v1/auth/session', headers })
      return answer.status === 200
    }

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
    const liveSessions = (userId: string) => idsOf('sessions', userId, 'ended_at is null')

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
      const [before, beforeSecond] = [first.logged().length, second.logged().length]
      await action()
      const logged = [...first.logged().slice(before), ...second.logged().slice(beforeSecond)]
      const faults = logged.filter(({ err }) => err !== undefined)
      assert.deepEqual(faults, [])
      assert.equal(await countDeadlocks(), deadlocks)
      return logged
    }

    for (const instances of [1, 2]) {
      test(`20 refreshes at once with one token at ${instances} of two instances get one successor`, async () => {
        const services = [first, second].slice(0, instances)
        const { email, userId } = await newUser()
        const token = await login(email)
        await withoutFault(async () => {
          const answers = await refreshAtOnce([token], services, PARALLEL)
          assert.deepEqual(countStatuses(answers), { 200: PARALLEL })
          const [answer] = answers
          assert.ok(answer)
          const successor = tokenOf(answer)
          assert.notEqual(successor, token)
          assert.deepEqual(new Set(answers.map(tokenOf)), new Set([successor]))
          assert.deepEqual(await liveTokens(userId), new Set([idOf(successor)]))
          assert.equal(await isAlive(answer), true)
          for (const { headers } of answers) assert.equal(headers['set-cookie'], undefined)

          const next = await refresh(second, successor)
          assert.equal(next.status, 200)
          assert.deepEqual(await liveTokens(userId), new Set([idOf(tokenOf(next))]))
          assert.equal(await isAlive(next), true)
        })
      })
    }

    test('20 replays at once after the grace period end the session, and the reuse is logged once', async () => {
      const { email, userId } = await newUser()
      const [token, untouched] = [await login(email), await login((await newUser()).email)]
      const successor = tokenOf(await refresh(first, token))
      for (const service of [first, second]) service.advance(GRACE_MS + 1)
      const logged = await withoutFault(async () => {
        const answers = await refreshAtOnce([token], [first, second], PARALLEL)
        assert.deepEqual(countStatuses(answers), { 401: PARALLEL })
      })
      for (const event of ['session.reuse_detected', 'session.ended']) {
        assert.equal(logged.filter(line => line.event === event).length, 1, event)
      }
      assert.equal((await refresh(first, successor)).status, 401)
      assert.deepEqual(await liveTokens(userId), new Set())
      assert.equal((await refresh(first, untouched)).status, 200)
    })

    const opponents: {
      name: string
      sessions: number
      end: (token: string, email: string) => Promise<unknown>
    }[] = [
      { name: 'a logout', sessions: 1, end: token => logout(second, token) },
      {
        name: 'deactivating the user',
        sessions: 3,
        end: (_, email) => byEmail(second.store).deactivate(email, changeAt(second.now())),
      },
      {
        name: 'deleting the user',
        sessions: 3,
        end: (_, email) => byEmail(second.store).delete(email, changeAt()),
      },
    ]
    for (const { name, sessions, end } of opponents) {
      test(`${name} at the same time as refreshes leaves no live token or session`, async () => {
        await withoutFault(async () => {
          for (let round = 0; round < ROUNDS; round++) {
            const { email, userId } = await newUser()
            const tokens: string[] = []
            while (tokens.length < sessions) tokens.push(await login(email))
            const refreshing = refreshAtOnce(tokens, [first, second], 6)
            // A longer delay in each round: from before the first rotation to after the last.
            await setTimeout(round)
            await end(tokens[0] ?? '', email)
            const answers = await refreshing
            const { 200: won = 0, 401: lost = 0, ...others } = countStatuses(answers)
            assert.deepEqual(others, {}, `${won} won, ${lost} lost`)
            const refreshed = answers.filter(({ status }) => status === 200)
            assert.ok(new Set(refreshed.map(tokenOf)).size <= sessions)
            assert.deepEqual(await liveTokens(userId), new Set())
            assert.deepEqual(await liveSessions(userId), new Set())
            for (const answer of refreshed) assert.equal(await isAlive(answer), false)
            for (const token of [...tokens, ...refreshed.map(tokenOf)]) {
              assert.equal((await refresh(first, token)).status, 401)
            }
          }
        })
      })
    }

    test('two sessions of one user that are refreshed at once get one successor each, and end separately', async () => {
      const { email, userId } = await newUser()
      const tokens = [await login(email), await login(email)]
      await withoutFault(async () => {
        const answers = await refreshAtOnce(tokens, [first, second], PARALLEL)
        assert.deepEqual(countStatuses(answers), { 200: PARALLEL })
        const successors = [...new Set(answers.map(tokenOf))]
        assert.equal(successors.length, 2)
        assert.deepEqual(await liveTokens(userId), new Set(successors.map(idOf)))

        const [ended = '', kept = ''] = successors
        const [, next] = await Promise.all([logout(first, ended), refresh(second, kept)])
        assert.equal(next.status, 200)
        assert.deepEqual(await liveTokens(userId), new Set([idOf(tokenOf(next))]))
        assert.equal((await refresh(first, ended)).status, 401)
      })
    })

    test('a second rotation of a token fails and does not change the session', async () => {
      const { email, userId } = await newUser()
      const token = await login(email)
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
