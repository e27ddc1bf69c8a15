// What logins and requests with a session cost PostgreSQL. With SQLite there are no round trips to count.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeJwt } from 'jose'
import { byEmail, changeAt, makeScopes } from '../storage/fixtures.ts'
import { own } from '../support/own.ts'
import { until } from '../support/process.ts'
import { createRefused, type Refused } from '../support/refused.ts'
import { createAddresses, PASSWORD } from '../support/service.ts'
import { bearer, DAY_MS, startSessionService } from '../support/session-client.ts'
import { costOf } from '../support/statement-cost.ts'

describe('the cost of a session', async () => {
  const service = await own(startSessionService('postgres'))

  const newLogin = async () => service.browserLogin(await service.newUser())

  test('a request with a session takes one statement, and the repetition of a refresh two', async () => {
    const { refreshToken, accessToken } = await newLogin()
    const { refreshToken: other } = await newLogin()
    for (const [statements, call] of [
      [1, () => service.refresh(refreshToken)],
      [2, () => service.refresh(refreshToken)],
      [1, () => service.get('/session', bearer(accessToken))],
      [1, () => service.logout(other)],
    ] as const) {
      assert.equal(await countStatements(call), statements, String(call))
    }
  })

  test('a login takes six round trips, one of them beside the hash, and a failure five', async () => {
    const email = await service.newUser()
    const logIn = (password: string, status: number) => () =>
      costOf(async () => assert.equal((await service.login(email, password)).status, status))
    await logIn(PASSWORD, 200)()
    for (const [password, status, statements, roundTrips] of [
      [PASSWORD, 200, 14, 6],
      ['wrong', 401, 11, 5],
    ] as const) {
      const cost = await logIn(password, status)()
      assert.deepEqual([cost.statements, cost.roundTrips], [statements, roundTrips])
    }
  })

  test('a refused login costs the same, whatever is wrong with its password or its code', async () => {
    const newAddress = createAddresses()
    const refused = await createRefused(service, newAddress)
    const refuse = ({ email, password, proof }: Refused) => {
      const call = { body: { email, password, ...proof() }, from: newAddress() }
      return costOf(async () => assert.equal((await service.call(call)).status, 401))
    }
    // Connections prepare the statements when they use them for the first time.
    for (const each of refused) await refuse(each)
    for (const each of refused) {
      assert.deepEqual(await refuse(each), { statements: 12, roundTrips: 5, rows: 13 }, each.name)
    }
  })

  test('attempts cost the same at known, unknown and locked emails, also those that block one', async () => {
    const { attempts } = service.store
    const now = service.now()
    const [known, locked] = [await service.newUser(), await service.newUser()]
    await byEmail(service.store).lock(locked, new Date(now.getTime() + DAY_MS), changeAt(now))
    const costs: unknown[] = []
    for (const email of [known, locked, 'unknown@example.com']) {
      const id = (await service.store.users.findByEmail(email))?.id ?? null
      const scopes = makeScopes(email, email, { pair: 2, email: 1, client: 2 })
      const reserve = () => attempts.reserve(scopes, email, now)
      const calls = [reserve, () => attempts.fail(scopes, id, now), reserve, reserve]
      const own: unknown[] = []
      for (const call of calls) own.push(await costOf(call))
      costs.push(own)
    }
    const [expected] = costs
    assert.deepEqual(expected, [
      { statements: 5, roundTrips: 2, rows: 4 },
      { statements: 5, roundTrips: 2, rows: 7 },
      // It begins again with a lock of the user.
      { statements: 10, roundTrips: 4, rows: 10 },
      { statements: 4, roundTrips: 2, rows: 4 },
    ])
    for (const cost of costs) assert.deepEqual(cost, expected)
  })

  test('in the last week of a session, its tokens end with it, and only the first refresh takes more statements', async () => {
    const { refreshToken, sessionId } = await newLogin()
    const end = new Date(service.now().getTime() + 3 * DAY_MS)
    await service.database.rows(
      `update sessions set expires_at = '${end.toISOString()}' where id = '${sessionId}'`,
    )
    let last = refreshToken
    const refresh = async () => {
      const answer = await service.refresh(last)
      last = answer.json.data.refreshToken
      return answer
    }
    for (const statements of [3, 1, 1]) {
      assert.equal(await countStatements(refresh), statements)
      assert.equal(decodeJwt(last).exp, Math.floor(end.getTime() / 1000))
    }
  })

  test('refreshes change no index of sessions', async () => {
    let { refreshToken } = await newLogin()
    const REFRESHES = 50
    const updatesSoFar = async () => {
      const [row] = await service.database.rows(`select n_tup_upd as all, n_tup_hot_upd as hot
        from pg_stat_user_tables where relname = 'sessions'`)
      return { all: Number(row?.all), hot: Number(row?.hot) }
    }
    const before = await updatesSoFar()
    for (let i = 0; i < REFRESHES; i++) {
      refreshToken = (await service.refresh(refreshToken)).json.data.refreshToken
    }
    // Idle connections report after ten seconds, and when they end.
    await service.database.rows(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`)
    await until(async () => (await updatesSoFar()).all >= before.all + REFRESHES)
    const after = await updatesSoFar()
    const share = (after.hot - before.hot) / (after.all - before.all)
    // A page without room, while an older version of a row is still read, is a rare exception.
    assert.ok(share >= 0.9, `${share} of the updates`)
  })
})

async function countStatements(call: () => Promise<{ status: number }>): Promise<number> {
  const { statements } = await costOf(async () => assert.equal((await call()).status, 200))
  return statements
}
