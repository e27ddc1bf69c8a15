// A refresh whose answer is lost because the database stalls at its commit, as when its synchronous standby
// dies: the rotation is done, and the caller gets a 500.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { decodeJwt } from 'jose'
import { nameStandby } from '../support/engines.ts'
import { NO_FSYNC, type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { until } from '../support/process.ts'
import {
  countStatuses,
  PASSWORD,
  startTestService,
  type TestService,
  WITH_THREADS,
} from '../support/service.ts'

const SESSIONS = 8
const SECOND_MS = 1_000

describe('while commits of PostgreSQL wait for a standby', () => {
  let server: PostgresServer
  let service: TestService
  before(async () => {
    server = await startPostgres(NO_FSYNC)
    // With the limits of the service: it answers while the database stalls.
    service = await startTestService('postgres', WITH_THREADS, null, server.url)
  })
  after(async () => {
    await service.stop()
    await server.stop()
  })

  const refresh = (refreshToken: string, requestId: string, from: string) =>
    service.call({
      path: '/api/v1/auth/refresh',
      headers: { 'X-Request-ID': requestId },
      body: { refreshToken },
      from,
    })

  test('a rotation without an answer is repeated 30 seconds later, from another address: no session ends', async () => {
    const email = await service.newUser()
    const other = await service.newUser()
    const tokens: string[] = []
    while (tokens.length < SESSIONS) {
      tokens.push((await service.login(email, PASSWORD)).json.data.refreshToken)
    }
    await nameStandby(server, 'missing')
    await until(async () => (await service.login(other, PASSWORD)).status === 500)
    const ids = tokens.map(() => randomUUID())
    const refreshAll = (from: string) =>
      Promise.all(tokens.map((token, index) => refresh(token, ids[index] ?? '', from)))
    const lost = await refreshAll('127.0.0.1')
    assert.deepEqual(countStatuses(lost), { 500: SESSIONS })

    service.advance(30 * SECOND_MS)
    await nameStandby(server, '')
    const successors = async () => {
      const rows = await service.database.rows(
        'select successor_id from refresh_tokens where successor_id is not null',
      )
      return rows.map(({ successor_id }) => successor_id)
    }
    await until(async () => (await successors()).length === SESSIONS)
    const expected = (await successors()).toSorted()
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
