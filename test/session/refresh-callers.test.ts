// The grace period of a refresh is for its own caller: what a repetition by the client gets, and one by a thief.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { OutgoingHttpHeaders } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { scrape } from '../support/metrics.ts'
import { freePort } from '../support/postgres-server.ts'
import { type Answer, loggedBy } from '../support/service.ts'
import {
  AUTH,
  bearer,
  INVALID_TOKEN,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

const HOME = '203.0.113.9'
const ELSEWHERE = '198.51.100.7'
const ID = '5f0c6a52-7a3e-4d0b-9c1e-2a6b8d4f1e37'
const OTHER_ID = '0d9b3c84-1f6a-4e57-8b2d-c4a7e9f05d16'
const REPEATS = ['id', 'client', 'refused'] as const

/** Where a request comes from, behind the proxy that the services of this file trust. */
function client(address: string, userAgent: string, requestId?: string | string[]) {
  return {
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-For': address,
    'User-Agent': userAgent,
    ...(requestId && { 'X-Request-ID': requestId }),
  }
}

for (const engine of ENGINES_BY_RUN) {
  describe(`the caller of a refresh on ${engine}`, () => {
    let service: SessionService
    let opsPort: number
    before(async () => {
      opsPort = await freePort()
      const env = { TRUST_PROXY: '127.0.0.1', OPS_PORT: String(opsPort) }
      service = await startSessionService(engine, env)
    })
    after(() => service.stop())

    const newLogin = async () =>
      service.browserLogin(await service.newUser(), { headers: client(HOME, 'app') })
    const refresh = (refreshToken: string, headers: OutgoingHttpHeaders) =>
      service.call({ path: `${AUTH}/refresh`, headers, body: { refreshToken } })

    async function rotated(refreshToken: string, headers: OutgoingHttpHeaders): Promise<string> {
      const { status, text, json } = await refresh(refreshToken, headers)
      assert.equal(status, 200, text)
      return json.data.refreshToken
    }

    /** What the action is answered, which events it logs, and what it adds to the metric. */
    async function observed(action: () => Promise<Answer>) {
      const count = async () => {
        const series = await scrape(opsPort)
        return REPEATS.map(by => series.get(`refresh_repeats_total{by="${by}"}`) ?? Number.NaN)
      }
      const earlier = await count()
      let answer: Answer | undefined
      const lines = await loggedBy(service, async () => {
        answer = await action()
      })
      assert.ok(answer)
      const later = await count()
      // Refusals of earlier tests may be written now, because they are counted first. They name no session.
      const own = lines.filter(({ sessionId }) => sessionId !== undefined)
      const by = REPEATS.filter((_, index) => later[index] !== earlier[index])
      return { answer, lines: own, by }
    }

    type Headers = ReturnType<typeof client>
    const [home, homeWithId] = [client(HOME, 'app'), client(HOME, 'app', ID)]
    const ipv6 = client('2001:db8:0:1::1', 'app')
    const SAME: [string, rotation: Headers, repetition: Headers, by: string][] = [
      ['the same id from elsewhere', homeWithId, client(ELSEWHERE, 'other', ID), 'id'],
      ['the same id in capitals', homeWithId, client(ELSEWHERE, 'app', ID.toUpperCase()), 'id'],
      ['the same client without an id', home, home, 'client'],
      ['the same client with another id', homeWithId, client(HOME, 'app', OTHER_ID), 'client'],
      ['the same client, now without an id', homeWithId, home, 'client'],
      ['the same client without a user agent', client(HOME, ''), client(HOME, ''), 'client'],
      ['the same IPv6 network', ipv6, client('2001:db8:0:1:ffff::2', 'app'), 'client'],
      ['the same address, written as IPv6', home, client(`::ffff:${HOME}`, 'app'), 'client'],
    ]
    for (const [name, rotation, repetition, expected] of SAME) {
      test(`gets the same successor again: ${name}`, async () => {
        const { refreshToken, sessionId } = await newLogin()
        const successor = await rotated(refreshToken, rotation)
        const { answer, lines, by } = await observed(() => refresh(refreshToken, repetition))
        assert.equal(answer.json.data.refreshToken, successor, answer.text)
        assert.deepEqual(by, [expected])
        assert.deepEqual(
          lines.map(line => [line.event, line.sessionId, line.repeated]),
          [['session.refreshed', sessionId, true]],
        )
        await rotated(successor, rotation)
      })
    }

    const OTHER: [string, rotation: Headers, repetition: Headers][] = [
      ['another address', client(HOME, 'app'), client(ELSEWHERE, 'app')],
      ['another user agent', client(HOME, 'app'), client(HOME, 'browser')],
      ['no user agent', client(HOME, 'app'), client(HOME, '')],
      ['another IPv6 network', client('2001:db8:0:1::1', 'app'), client('2001:db8:0:2::1', 'app')],
      ['IPv6 instead of IPv4', client(HOME, 'app'), client('2001:db8:0:1::1', 'app')],
      ['no id, elsewhere', client(HOME, 'app', ID), client(ELSEWHERE, 'app')],
      ['another id, elsewhere', client(HOME, 'app', ID), client(ELSEWHERE, 'app', OTHER_ID)],
      ['an id where the client sent none', client(HOME, 'app'), client(ELSEWHERE, 'app', ID)],
      ['an id that is no UUID', client(HOME, 'app', 'x'), client(ELSEWHERE, 'app', 'x')],
      ['the id twice', client(HOME, 'app', ID), client(ELSEWHERE, 'app', [ID, ID])],
      ['two ids twice', client(HOME, 'app', [ID, ID]), client(ELSEWHERE, 'app', [ID, ID])],
    ]
    for (const [name, rotation, repetition] of OTHER) {
      test(`is another caller and ends the session: ${name}`, async () => {
        const { refreshToken, accessToken, sessionId } = await newLogin()
        const successor = await rotated(refreshToken, rotation)
        const { answer, lines, by } = await observed(() => refresh(refreshToken, repetition))
        assert.deepEqual([answer.status, answer.text], [401, INVALID_TOKEN])
        assert.deepEqual(by, ['refused'])
        assert.deepEqual(
          lines.map(line => [line.event, line.sessionId, line.otherCaller, line.reason]),
          [
            ['session.reuse_detected', sessionId, true, undefined],
            ['session.ended', sessionId, undefined, 'reuse'],
          ],
        )
        for (const token of [successor, refreshToken]) {
          assert.equal((await refresh(token, rotation)).status, 401)
        }
        const headers = { ...client(HOME, 'app'), ...bearer(accessToken) }
        assert.equal((await service.get('/session', headers)).status, 401)
      })
    }

    test('an id that the service made for a request counts as none', async () => {
      const { refreshToken } = await newLogin()
      const first = await refresh(refreshToken, client(HOME, 'app'))
      const made = String(first.headers['x-request-id'])
      const { by } = await observed(() => refresh(refreshToken, client(ELSEWHERE, 'app', made)))
      assert.deepEqual(by, ['refused'])
    })

    test('an id that the refresh before had too does not count, but its client does', async () => {
      for (const [address, expected] of [
        [HOME, 'client'],
        [ELSEWHERE, 'refused'],
      ] as const) {
        const own = client(HOME, 'app', ID)
        const { refreshToken } = await newLogin()
        const third = await rotated(await rotated(refreshToken, own), own)
        await rotated(third, own)
        const { by } = await observed(() => refresh(third, client(address, 'app', ID)))
        assert.deepEqual(by, [expected])
      }
    })

    test('a repetition after a logout, or after the successor was used, gets nothing, even with the id', async () => {
      const own = client(HOME, 'app', ID)
      const loggedOut = await newLogin()
      const successor = await rotated(loggedOut.refreshToken, own)
      const body = { refreshToken: successor }
      await service.call({ path: `${AUTH}/logout`, headers: client(HOME, 'app'), body })
      assert.equal((await refresh(loggedOut.refreshToken, own)).status, 401)

      const used = await newLogin()
      await rotated(await rotated(used.refreshToken, own), client(HOME, 'app', OTHER_ID))
      const { answer, lines, by } = await observed(() => refresh(used.refreshToken, own))
      assert.deepEqual([answer.status, by], [401, []])
      assert.deepEqual(
        lines.map(({ event, otherCaller }) => [event, otherCaller]),
        [
          ['session.reuse_detected', undefined],
          ['session.ended', undefined],
        ],
      )
    })

    test('neither the id nor the address and user agent of a refresh are stored', async () => {
      const { refreshToken } = await newLogin()
      const [address, userAgent, id] = ['192.0.2.77', 'agent-canary', randomUUID()]
      await rotated(refreshToken, client(address, userAgent, id))
      const stored = JSON.stringify(
        await Promise.all(
          ['refresh_tokens', 'sessions'].map(table =>
            service.database.rows(`select * from ${table}`),
          ),
        ),
      )
      for (const text of [address, userAgent, id]) assert.ok(!stored.includes(text), text)
    })
  })
}
