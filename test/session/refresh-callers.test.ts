// The grace period of a refresh is for its own caller: what a repetition by the client gets, and one by a thief.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { OutgoingHttpHeaders } from 'node:http'
import { describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { scrape } from '../support/metrics.ts'
import { own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { AUTH, bearer, INVALID_TOKEN, startSessionService } from '../support/session-client.ts'

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
  describe(`the caller of a refresh on ${engine}`, async () => {
    const opsPort = await freePort()
    const env = { TRUST_PROXY: '127.0.0.1', OPS_PORT: String(opsPort) }
    const service = await own(startSessionService(engine, env))

    const newLogin = async () =>
      service.browserLogin(await service.newUser(), { headers: client(HOME, 'app') })
    const refresh = (refreshToken: string, headers: OutgoingHttpHeaders) =>
      service.call({ path: `${AUTH}/refresh`, headers, body: { refreshToken } })

    async function rotated(refreshToken: string, headers: OutgoingHttpHeaders): Promise<string> {
      const { status, text, json } = await refresh(refreshToken, headers)
      assert.equal(status, 200, text)
      return json.data.refreshToken
    }

    /** What a repetition is answered, which events it logs, and what it adds to the metric. */
    async function repeated(refreshToken: string, headers: OutgoingHttpHeaders) {
      const count = async () => {
        const series = await scrape(opsPort)
        return REPEATS.map(by => series.get(`refresh_repeats_total{by="${by}"}`) ?? Number.NaN)
      }
      const [earlier, before] = [await count(), service.logged().length]
      const { status, text, json } = await refresh(refreshToken, headers)
      // Refusals of earlier tests may be written now, because they are counted first. They name no session.
      const lines = service
        .logged()
        .slice(before)
        .filter(({ sessionId }) => sessionId !== undefined)
      const later = await count()
      const by = REPEATS.filter((_, index) => later[index] !== earlier[index])
      return { status, text, successor: json.data?.refreshToken, lines, by: by.join() }
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
        const { lines, ...answer } = await repeated(refreshToken, repetition)
        assert.deepEqual([answer.successor, answer.by], [successor, expected], answer.text)
        const told = lines.map(line => [line.event, line.sessionId, line.repeated])
        assert.deepEqual(told, [['session.refreshed', sessionId, true]])
        await rotated(successor, rotation)
      })
    }

    const elsewhere = client(ELSEWHERE, 'app')
    const elsewhereWithId = client(ELSEWHERE, 'app', ID)
    const OTHER: [string, rotation: Headers, repetition: Headers][] = [
      ['another address', home, elsewhere],
      ['another user agent', home, client(HOME, 'browser')],
      ['no user agent', home, client(HOME, '')],
      ['another IPv6 network', ipv6, client('2001:db8:0:2::1', 'app')],
      ['IPv6 instead of IPv4', home, ipv6],
      ['no id, elsewhere', homeWithId, elsewhere],
      ['another id, elsewhere', homeWithId, client(ELSEWHERE, 'app', OTHER_ID)],
      ['an id where the client sent none', home, elsewhereWithId],
      ['an id that is no UUID', client(HOME, 'app', 'x'), client(ELSEWHERE, 'app', 'x')],
      ['the id twice', homeWithId, client(ELSEWHERE, 'app', [ID, ID])],
      ['two ids twice', client(HOME, 'app', [ID, ID]), client(ELSEWHERE, 'app', [ID, ID])],
    ]
    for (const [name, rotation, repetition] of OTHER) {
      test(`is another caller and ends the session: ${name}`, async () => {
        const { refreshToken, accessToken, sessionId } = await newLogin()
        const successor = await rotated(refreshToken, rotation)
        const { status, text, lines, by } = await repeated(refreshToken, repetition)
        assert.deepEqual([status, text, by], [401, INVALID_TOKEN, 'refused'])
        const told = lines.map(it => [it.event, it.sessionId, it.otherCaller, it.reason])
        assert.deepEqual(told, [
          ['session.reuse_detected', sessionId, true, undefined],
          ['session.ended', sessionId, undefined, 'reuse'],
        ])
        for (const token of [successor, refreshToken]) {
          assert.equal((await refresh(token, rotation)).status, 401)
        }
        const headers = { ...home, ...bearer(accessToken) }
        assert.equal((await service.get('/session', headers)).status, 401)
      })
    }

    test('an id that the service made for a request counts as none', async () => {
      const { refreshToken } = await newLogin()
      const { headers } = await refresh(refreshToken, home)
      const made = client(ELSEWHERE, 'app', String(headers['x-request-id']))
      assert.equal((await repeated(refreshToken, made)).by, 'refused')
    })

    test('an id that the refresh before had too does not count, but its client does', async () => {
      for (const [repetition, expected] of [
        [homeWithId, 'client'],
        [elsewhereWithId, 'refused'],
      ] as const) {
        const { refreshToken } = await newLogin()
        const third = await rotated(await rotated(refreshToken, homeWithId), homeWithId)
        await rotated(third, homeWithId)
        assert.equal((await repeated(third, repetition)).by, expected)
      }
    })

    test('neither the id nor the address and user agent of a refresh are stored', async () => {
      const { refreshToken } = await newLogin()
      const [address, userAgent, id] = ['192.0.2.77', 'agent-canary', randomUUID()]
      await rotated(refreshToken, client(address, userAgent, id))
      const tables = [
        await service.database.rows('select * from refresh_tokens'),
        await service.database.rows('select * from sessions'),
      ]
      const stored = JSON.stringify(tables)
      for (const text of [address, userAgent, id]) assert.ok(!stored.includes(text), text)
    })
  })
}
