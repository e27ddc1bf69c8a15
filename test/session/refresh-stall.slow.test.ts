// A refresh whose answer is lost because the database stalls at its commit, as when its synchronous standby
// dies: the rotation is done, and the caller gets a 500.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { decodeJwt } from 'jose'
import { nameStandby } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import { NO_FSYNC, startPostgres } from '../support/postgres-server.ts'
import { until } from '../support/process.ts'
import { countStatuses, PASSWORD, startTestService } from '../support/service.ts'
import { AUTH, SECOND_MS } from '../support/session-client.ts'

const SESSIONS = 8

describe('while commits of PostgreSQL wait for a standby', async () => {
  const server = await startPostgres(NO_FSYNC)
  const service = await own(startTestService('postgres', {}, null, server.url))
  after(server.stop)

  const login = async () =>
    (await service.login(await service.newUser(), PASSWORD)).json.data.refreshToken
  const refresh = (refreshToken: string, requestId: string, from: string) =>
    service.call({
      path: `${AUTH}/refresh`,
      headers: { 'X-Request-ID': requestId },
      body: { refreshToken },
      from,
    })

  test('a rotation without an answer is repeated 30 seconds later, from another address: no session ends', async () => {
    const tokens = await inParallel(SESSIONS, login)
    const ids = tokens.map(() => randomUUID())
    const refreshAll = (from: string) =>
      inParallel(SESSIONS, index => refresh(tokens[index] ?? '', ids[index] ?? '', from))
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
    assert.deepEqual(countStatuses(await refreshAll('127.0.0.1')), { 500: SESSIONS })

    service.advance(30 * SECOND_MS)
    await nameStandby(server, '')
    await until(async () => (await successors()).length === SESSIONS)
    const expected = await successors()
    const repeated = await refreshAll('127.0.0.2')
    assert.deepEqual(countStatuses(repeated), { 200: SESSIONS })
    const got = repeated.map(({ json }) => decodeJwt(json.data.refreshToken).jti)
    assert.deepEqual(got.toSorted(), expected)
    const again = await Promise.all(
      repeated.map(({ json }) => refresh(json.data.refreshToken, randomUUID(), '127.0.0.2')),
    )
    assert.deepEqual(countStatuses(again), { 200: SESSIONS })
  })
})
