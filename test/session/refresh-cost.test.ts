// What a request with a session costs PostgreSQL. With SQLite there are no round trips to count.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeJwt } from 'jose'
import pg from 'pg'
import { own } from '../support/own.ts'
import { until } from '../support/process.ts'
import { PASSWORD } from '../support/service.ts'
import { bearer, DAY_MS, startSessionService } from '../support/session-client.ts'

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

  test('a login is two transactions, and a failure costs the same for known and unknown emails', async () => {
    const email = await service.newUser()
    await service.login(email, PASSWORD)
    assert.equal(await countStatements(() => service.login(email, PASSWORD)), 13)
    assert.equal(await countStatements(() => service.login(email, 'wrong'), 401), 10)
    const unknown = () => service.login('unknown@example.com', 'wrong')
    await unknown()
    assert.equal(await countStatements(unknown, 401), 10)
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

/** The statements that the driver sends during a call with this status. */
async function countStatements(
  call: () => Promise<{ status: number }>,
  status = 200,
): Promise<number> {
  const original = pg.Client.prototype.query
  let count = 0
  Reflect.set(pg.Client.prototype, 'query', function (this: pg.Client, ...parameters: unknown[]) {
    count++
    return Reflect.apply(original, this, parameters)
  })
  try {
    assert.equal((await call()).status, status)
    return count
  } finally {
    Reflect.set(pg.Client.prototype, 'query', original)
  }
}
