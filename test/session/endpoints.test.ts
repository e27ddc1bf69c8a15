// The endpoints of sessions: which credentials a client gets, where each of them is accepted, and what each endpoint does.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { OutgoingHttpHeaders } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { decodeJwt, exportJWK, generateKeyPair } from 'jose'
import { loadKeySet } from '../../src/keys/key-file.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { type Answer, type Call, loggedBy, PASSWORD, startTestService } from '../support/service.ts'
import {
  AUTH,
  bearer,
  CSRF_FAILED,
  cookie,
  cookieIn,
  DAY_MS,
  DEVICE_COOKIE,
  endedBy,
  INVALID_TOKEN,
  MINUTE_MS,
  NO_CREDENTIAL,
  ownChange,
  ownSessions,
  resigned,
  SECOND_MS,
  SESSION_COOKIE,
} from '../support/session-client.ts'

const OTHER = '/sessions/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55'
const ENDPOINTS: [method: string, path: string][] = [
  ['GET', '/session'],
  ['GET', '/sessions'],
  ['DELETE', '/sessions'],
  ['DELETE', OTHER],
]
const ALLOWED: [path: string, allow: string][] = [
  ['/login', 'POST'],
  ['/refresh', 'POST'],
  ['/logout', 'POST'],
  ['/session', 'GET, HEAD'],
  ['/sessions', 'GET, HEAD, DELETE'],
  [OTHER, 'DELETE'],
  ['/sessions/x', 'DELETE'],
]
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']

const ATTRIBUTES = ['HttpOnly', 'Path=/', 'SameSite=Strict', 'Secure']
/** The length of 256 random bits; the device cookie adds a tag of 128 bits. */
const SESSION_CHARACTERS = 43
const DEVICE_CHARACTERS = 65
const MAX_AGE = `Max-Age=${180 * 24 * 3600}`

const CREDENTIALS = ['accessToken', 'refreshToken', 'cookie', 'device', 'csrf'] as const
type Credential = (typeof CREDENTIALS)[number]

const NOTHING = '{"success":true,"data":{}}'
const FIELDS = ['id', 'createdAt', 'lastUsedAt', 'expiresAt', 'userAgent', 'ip', 'amr', 'current']

type Body = Pick<Call, 'headers' | 'body'>

const typed = (type: string, body?: unknown): Body => ({ headers: { 'Content-Type': type }, body })
const json = (text: string | Buffer) => typed('application/json', text)
const given = (refreshToken: unknown): Body => ({ body: { refreshToken } })

/** By what `/refresh` answers: the status, the code and the fields that it names. */
const ODD_BODIES: Record<string, Record<string, Body>> = {
  '401 INVALID_TOKEN': {
    'nothing at all': {},
    'nothing, typed as JSON': typed('application/json'),
    'nothing, typed as text': typed('text/plain'),
    'an empty object': { body: {} },
    'a list': { body: [] },
    'JSON null': json('null'),
    'an empty string': given(''),
    dots: given('..'),
    'four parts': given('a.b.c.d'),
    'five parts': given('a.b.c.d.e'),
    NUL: given('\0'),
    'a lone surrogate': given('\ud800'),
    'nearly 16 KiB': given('x'.repeat(16_000)),
  },
  '400 BAD_REQUEST refreshToken': {
    'a list of a token': { body: ['a.b.c'] },
    'a JSON number': json('1'),
    'a JSON string': json('"a.b.c"'),
    'a number': given(1),
    null: given(null),
    true: given(true),
    'an array': given(['a.b.c']),
    'an object': given({ toString: 'a.b.c' }),
    'the field name in lower case': { body: { refreshtoken: 'a.b.c' } },
  },
  '400 BAD_REQUEST': {
    'malformed JSON': json('{"refreshToken":'),
    'invalid UTF-8': json(Buffer.from('{"\xff":1}', 'latin1')),
    'a prototype key': json('{"__proto__":{}}'),
  },
  '413 PAYLOAD_TOO_LARGE': { '16 KiB': given('x'.repeat(16_384)) },
  '415 UNSUPPORTED_MEDIA_TYPE': {
    'a body without a type': { body: '{}' },
    'a form': typed('application/x-www-form-urlencoded', 'refreshToken=a.b.c'),
  },
}

for (const engine of ENGINES_BY_RUN) {
  describe(`session endpoints on ${engine}`, async () => {
    const service = await ownSessions(engine)
    await service.addUser('kate@example.com')
    let login = await service.browserLogin('kate@example.com')
    const { accessKeys } = await loadKeySet(join(service.dataDir, 'signing-keys.json'))
    const [genuine] = accessKeys
    assert.ok(genuine)

    function assertRefused(answer: Answer): void {
      assert.deepEqual([answer.status, answer.text], [401, INVALID_TOKEN])
      assert.equal(answer.headers['set-cookie'], undefined)
      assert.equal(answer.headers['cache-control'], 'no-store')
    }
    const sessionWith = (token: string) => service.get('/session', bearer(token))
    const statusByCookie = async (value: string) =>
      (await service.get('/session', cookie(value))).status
    const refreshWith = (headers: OutgoingHttpHeaders, body?: object) =>
      service.call({ path: `${AUTH}/refresh`, headers, ...(body && { body }) })
    const logoutWith = (headers: OutgoingHttpHeaders, body?: object) =>
      service.call({ path: `${AUTH}/logout`, headers, ...(body && { body }) })

    test('key addresses in a token are not fetched, and a key in a token is not used', async () => {
      let connections = 0
      const listener = createServer(socket => {
        connections++
        socket.destroy()
      }).listen(0, '127.0.0.1')
      await once(listener, 'listening')
      const { port } = listener.address() as AddressInfo
      const { publicKey, privateKey } = await generateKeyPair('ES256')
      const jwk = await exportJWK(publicKey)
      const url = `http://127.0.0.1:${port}/keys.json`
      const headers = [{ jku: url }, { x5u: url }, { jwk }, { jku: url, kid: '' }]
      for (const header of [...headers, { kid: url }, { kid: '', jwk }]) {
        const token = await resigned(login.accessToken, privateKey, header)
        assertRefused(await sessionWith(token))
      }
      const own = await resigned(login.accessToken, genuine.signingKey, { jku: url, x5u: url })
      assert.equal((await sessionWith(own)).status, 200)
      listener.close()
      assert.equal(connections, 0)
    })

    test('a token is accepted for 30 seconds after its expiry, and no longer', async t => {
      service.stopClock(t)
      const { accessToken } = await service.programLogin('kate@example.com')
      const exp = (decodeJwt(accessToken).exp ?? 0) * SECOND_MS
      service.advanceTo(exp + 27 * SECOND_MS)
      assert.equal((await sessionWith(accessToken)).status, 200)
      service.advanceTo(exp + 31 * SECOND_MS)
      assertRefused(await sessionWith(accessToken))
      login = await service.browserLogin('kate@example.com')
    })

    for (const [method, path] of ENDPOINTS) {
      test(`${method} ${path.slice(0, 12)} refuses a token anywhere but as the bearer`, async () => {
        const token = login.accessToken
        const places: [query: string, headers: object, refusal?: string][] = [
          ['', {}],
          [`?access_token=${token}`, {}],
          [`?token=${token}&refreshToken=${login.refreshToken}`, {}],
          ['', { Authorization: token }],
          ['', { Authorization: `Basic ${token}` }],
          ['', { Authorization: `Bearer  ${token}` }, INVALID_TOKEN],
          ['', { 'X-Access-Token': token }],
        ]
        for (const [query, given, refusal = NO_CREDENTIAL] of places) {
          const call = { method, path: `${AUTH}${path}${query}`, headers: { ...given } }
          const { status, text, headers } = await service.call(call)
          assert.deepEqual([status, text, headers['cache-control']], [401, refusal, 'no-store'])
        }
      })
    }

    for (const [path, allow] of ALLOWED) {
      test(`${path.slice(0, 12)} allows ${allow} only`, async () => {
        for (const method of METHODS.filter(name => !allow.split(', ').includes(name))) {
          const headers = bearer(login.accessToken)
          const answer = await service.call({ method, path: `${AUTH}${path}`, headers })
          assert.deepEqual([answer.status, answer.headers.allow], [405, allow], method)
          assert.equal(answer.json.error.code, 'METHOD_NOT_ALLOWED')
          assert.equal(answer.headers['cache-control'], 'no-store')
        }
      })
    }

    test('HEAD is answered 200 without a body, and the case of the Bearer scheme does not matter', async () => {
      const headers = { Authorization: `bEARER ${login.accessToken}` }
      for (const path of ['/session', '/sessions']) {
        const call = { method: 'HEAD', path: `${AUTH}${path}`, headers }
        const { status, text } = await service.call(call)
        assert.deepEqual([status, text], [200, ''])
      }
    })

    const refreshBy = (changed: object) => refreshWith(ownChange({ ...login, ...changed }))

    async function assertAlive(): Promise<void> {
      for (const headers of [bearer(login.accessToken), cookie(login.cookie)]) {
        const { status, json } = await service.get('/session', headers)
        assert.deepEqual([status, json.data.session.id], [200, login.sessionId])
      }
    }

    /** The statuses answer a value of another kind. Every other part of the request is valid. */
    const PLACES: [
      name: string,
      belongs: Credential,
      refused: number[],
      present: (value: string) => Promise<Answer>,
    ][] = [
      ['bearer', 'accessToken', [401], value => service.get('/session', bearer(value))],
      ['session cookie', 'cookie', [401], value => service.get('/session', cookie(value))],
      ['cookie of a refresh', 'cookie', [401, 403], value => refreshBy({ cookie: value })],
      ['CSRF token', 'csrf', [403], value => refreshBy({ csrf: value })],
      ['refresh token', 'refreshToken', [401], value => service.refresh(value)],
    ]
    for (const [name, belongs, refused, present] of PLACES) {
      test(`only the ${belongs} is accepted as the ${name}`, async () => {
        for (const credential of CREDENTIALS.filter(other => other !== belongs)) {
          const { status, json, headers } = await present(login[credential])
          assert.ok(refused.includes(status), `${credential}: ${status}`)
          assert.equal(json.error.code, status === 401 ? 'INVALID_TOKEN' : 'CSRF_FAILED')
          assert.equal(json.data, undefined)
          assert.equal(headers['set-cookie'], undefined)
          await assertAlive()
        }
        const { status, text, json } = await present(login[belongs])
        assert.equal(status, 200, text)
        if (json.data.refreshToken) login.refreshToken = json.data.refreshToken
        await assertAlive()
      })
    }

    test('no other credential ends a session as the refresh token of a logout', async () => {
      for (const credential of CREDENTIALS.filter(other => other !== 'refreshToken')) {
        assert.equal((await service.logout(login[credential])).text, '{"success":true,"data":{}}')
        await assertAlive()
      }
    })

    test('a login keeps the device of a device cookie only', async () => {
      for (const credential of CREDENTIALS) {
        const answer = await service.call({
          headers: { 'Sec-Fetch-Site': 'same-origin', ...cookie(login[credential], DEVICE_COOKIE) },
          body: { email: 'kate@example.com', password: PASSWORD },
        })
        assert.equal(answer.status, 200)
        const isKept = cookieIn(answer, DEVICE_COOKIE) === login.device
        assert.equal(isKept, credential === 'device', credential)
        await assertAlive()
      }
    })

    test('no credential is accepted as a password', async () => {
      for (const credential of CREDENTIALS) {
        const { status } = await service.login('kate@example.com', login[credential], '127.5.0.1')
        assert.equal(status, 401)
      }
      await assertAlive()
    })

    for (const site of ['same-origin', 'same-site', 'cross-site', 'none']) {
      test(`a login from a browser (${site}) gets two cookies and a CSRF token, which are new each time`, async () => {
        const call = { headers: { 'Sec-Fetch-Site': site, Origin: 'http://localhost:3000' } }
        const email = await service.newUser()
        const seen = new Set<string>()
        for (const login of [
          await service.browserLogin(email, call),
          await service.browserLogin(email, call),
        ]) {
          const { answer, cookie, device, csrf, accessToken, refreshToken } = login
          const cookies = (answer.headers['set-cookie'] ?? []).map(line => line.split('; '))
          assert.deepEqual(
            cookies.map(([pair = '', ...attributes]) => [
              pair.split('=')[0],
              /=([\w-]+)$/.exec(pair)?.[1]?.length,
              attributes.toSorted(),
            ]),
            [
              [SESSION_COOKIE, SESSION_CHARACTERS, ATTRIBUTES],
              [DEVICE_COOKIE, DEVICE_CHARACTERS, [...ATTRIBUTES, MAX_AGE].toSorted()],
            ],
          )
          assert.match(csrf, /^[\w-]{22}\.[\w-]{43}$/)
          for (const secret of [cookie, device, csrf]) assert.ok(!answer.text.includes(secret))
          for (const secret of [cookie, device, csrf, accessToken, refreshToken]) seen.add(secret)
        }
        assert.equal(seen.size, 10)
      })
    }

    test('a failed login and a login by a program get neither cookies nor a CSRF token', async () => {
      const email = await service.newUser()
      const program = await service.login(email, PASSWORD)
      const failed = await service.call({
        headers: { 'Sec-Fetch-Site': 'same-origin' },
        body: { email, password: 'wrong' },
      })
      assert.deepEqual([program.status, failed.status], [200, 401])
      for (const { headers } of [program, failed]) {
        assert.equal(headers['set-cookie'], undefined)
        assert.equal(headers['x-csrf-token'], undefined)
      }
    })

    test('a refresh by cookie gives an access token of the same session, and no refresh token', async () => {
      const login = await service.browserLogin(await service.newUser())
      for (const headers of [ownChange(login), { ...ownChange(login), 'Content-Type': 'text/x' }]) {
        const answer = await refreshWith(headers)
        assert.equal(answer.status, 200)
        assert.deepEqual(Object.keys(answer.json.data), ['user', 'accessToken', 'expiresIn'])
        assert.deepEqual(answer.json.data.user, login.answer.json.data.user)
        assert.equal(answer.json.data.expiresIn, 3600)
        assert.equal(answer.headers['set-cookie'], undefined)
        const session = await sessionWith(answer.json.data.accessToken)
        assert.equal(session.json.data.session.id, login.sessionId)
      }
      assert.equal((await service.refresh(login.refreshToken)).status, 200)
    })

    test('a token takes precedence over a cookie, and a refusal clears no cookie', async () => {
      const email = await service.newUser()
      const [first, second] = [await service.browserLogin(email), await service.browserLogin(email)]
      const both = { ...cookie(first.cookie), ...bearer(second.accessToken) }
      const shown = await service.get('/session', both)
      assert.equal(shown.json.data.session.id, second.sessionId)
      assert.equal(shown.headers['x-csrf-token'], undefined)
      const { refreshToken } = second
      const refreshed = await refreshWith(ownChange(first), { refreshToken })
      assert.ok(refreshed.json.data.refreshToken)
      service.advance(61 * SECOND_MS)
      for (const refused of [
        await service.get('/session', { ...cookie(first.cookie), ...bearer('garbage') }),
        await service.get('/session', { ...cookie(first.cookie), Authorization: 'Bearer' }),
        await service.delete('/sessions', { ...ownChange(first), ...bearer('garbage') }),
        await refreshWith(ownChange(first), { refreshToken: 'garbage' }),
        await refreshWith(ownChange(first), { refreshToken }),
        await service.get('/session', cookie(second.cookie)),
      ]) {
        assertRefused(refused)
      }
      assert.equal(await statusByCookie(first.cookie), 200)
    })

    test('a cookie that differs from the issued one in name or value is refused', async () => {
      const { cookie: value, device } = await service.browserLogin(await service.newUser())
      const changed = [`${value}=`, `${value}=x`, `"${value}"`, `${value}A`, value.slice(1)]
      for (const other of [...changed, '', device])
        assert.equal(await statusByCookie(other), 401, other)
      const named = (name: string) => service.get('/session', cookie(value, name))
      for (const name of ['session', '__host-session', 'x__Host-session', DEVICE_COOKIE]) {
        assert.equal((await named(name)).status, 401, name)
      }
      const among = { Cookie: `a=b; ${SESSION_COOKIE}=${value}; c` }
      assert.equal((await service.get('/session', among)).status, 200)
    })

    const idsOf = ({ json }: Answer) => json.data.sessions.map(({ id }) => id)

    test('a session gets 600 pages and reads in a minute by its cookie; changes, verify and tokens have no such limit', async t => {
      service.stopClock(t)
      const login = await service.browserLogin(await service.newUser())
      const { cookie: value, accessToken } = login
      const headers = { ...cookie(value), Accept: 'text/html' }
      const page = { method: 'GET', path: '/login', headers }
      for (let i = 0; i < 600; i++) {
        assert.equal((await service.get('/session', cookie(value))).status, 200)
      }
      const lines = await loggedBy(service, async () => {
        for (const path of ['/session', '/sessions']) {
          const { status, json, headers } = await service.get(path, cookie(value))
          assert.deepEqual([status, json.error.code], [429, 'TOO_MANY_REQUESTS'])
          assert.equal(headers['retry-after'], '60')
        }
        const { status, text } = await service.call(page)
        assert.equal(status, 429)
        assert.match(text, /<!doctype html>/i)
      })
      assert.ok(lines.some(({ event }) => event === 'session.limited'))
      assert.equal((await service.get('/verify', cookie(value))).status, 200)
      assert.equal((await service.get('/session', bearer(accessToken))).status, 200)
      assert.equal((await service.delete('/sessions', ownChange(login))).status, 200)
      service.advance(MINUTE_MS)
      assert.equal((await service.call(page)).status, 200)
    })

    test('GET /session shows the user and the session', async () => {
      const { answer: login, ...opened } = await service.browserLogin(await service.newUser(), {
        headers: { 'User-Agent': 'Browser/1.0 (X11)' },
        from: '127.3.0.1',
      })
      const ways = { bearer: bearer(opened.accessToken), cookie: cookie(opened.cookie) }
      for (const [way, headers] of Object.entries(ways)) {
        const answer = await service.get('/session', headers)
        assert.equal(answer.status, 200)
        const { factors, recoveryCodesLeft } = answer.json.data
        assert.deepEqual([factors, recoveryCodesLeft], [[], 0])
        const { user, session } = answer.json.data
        assert.deepEqual(user, login.json.data.user)
        assert.deepEqual(Object.keys(session), [...FIELDS, 'lastLogin'])
        const { id, userAgent, ip, current } = session
        const expected = [opened.sessionId, 'Browser/1.0 (X11)', '127.3.0.1', true]
        assert.deepEqual([id, userAgent, ip, current], expected)
        assert.equal(session.createdAt, session.lastUsedAt)
        assert.equal(Date.parse(session.expiresAt) - Date.parse(session.createdAt), 30 * DAY_MS)
        assert.equal(answer.headers['x-csrf-token'] !== undefined, way === 'cookie')
        assert.equal(answer.headers['set-cookie'], undefined)
        assert.equal(answer.headers['cache-control'], 'no-store')
      }
    })

    test('the use of a cookie is noted once a minute, and keeps its session for 30 minutes, until its end', async t => {
      service.stopClock(t)
      const { cookie: value, sessionId } = await service.browserLogin(await service.newUser())
      const start = service.now().getTime()
      // The end of its refresh token.
      const idleEnd = new Date(start + 90 * SECOND_MS).toISOString()
      await service.database.rows(
        `update sessions set idle_expires_at = '${idleEnd}' where id = '${sessionId}'`,
      )
      for (const [advance, noted] of [
        [59, [0, 90]],
        [2, [61, 61 + 30 * 60]],
      ] as const) {
        service.advance(advance * SECOND_MS)
        assert.equal(await statusByCookie(value), 200)
        const [row = {}] = await service.database.rows(
          `select last_used_at, idle_expires_at, expires_at from sessions where id = '${sessionId}'`,
        )
        // PostgreSQL gives dates, SQLite texts.
        const times: string[] = Object.values(JSON.parse(JSON.stringify(row)))
        // The clock of PostgreSQL may be some milliseconds behind, which would be rounded to -0.
        const seconds = times.map(at => Math.round((Date.parse(at) - start) / SECOND_MS) || 0)
        assert.deepEqual(seconds, [...noted, 30 * 24 * 3600])
      }
    })

    test('GET /sessions lists the live sessions of the user and marks the current one', async () => {
      const email = await service.newUser()
      const expired = await service.programLogin(email)
      service.advance(7 * DAY_MS + MINUTE_MS)
      const first = await service.programLogin(email)
      service.advance(MINUTE_MS)
      const second = await service.browserLogin(email)
      const ended = await service.programLogin(email)
      await service.logout(ended.refreshToken)
      const stranger = await service.programLogin(await service.newUser())

      for (const current of [first, second]) {
        const answer = await service.get('/sessions', bearer(current.accessToken))
        assert.equal(answer.status, 200)
        assert.deepEqual(Object.keys(answer.json.data), ['sessions'])
        const { sessions } = answer.json.data
        for (const session of sessions) assert.deepEqual(Object.keys(session), FIELDS)
        assert.deepEqual(
          sessions.map(({ id, current }) => [id, current]),
          [first, second].map(({ sessionId }) => [sessionId, sessionId === current.sessionId]),
        )
        for (const { sessionId } of [expired, ended, stranger]) {
          assert.ok(!answer.text.includes(sessionId))
        }
      }
      const [{ lastUsedAt = '', createdAt = '' } = {}] = (
        await service.get('/sessions', cookie(second.cookie))
      ).json.data.sessions
      assert.equal(lastUsedAt, createdAt)
      service.advance(MINUTE_MS)
      await service.refresh(first.refreshToken)
      const [used] = (await service.get('/sessions', cookie(second.cookie))).json.data.sessions
      assert.ok(Date.parse(used?.lastUsedAt ?? '') > Date.parse(lastUsedAt))
    })

    test('DELETE /sessions/{id} ends that session and no other', async () => {
      const email = await service.newUser()
      const here = await service.programLogin(email)
      const there = await service.programLogin(email)
      const elsewhere = await service.programLogin(email)
      const end = () => service.delete(`/sessions/${there.sessionId}`, bearer(here.accessToken))
      const ended = await endedBy(service, async () => assert.equal((await end()).text, NOTHING))
      assert.deepEqual(ended, [['user', there.sessionId, here.userId]])
      assertRefused(await service.refresh(there.refreshToken))
      assertRefused(await sessionWith(there.accessToken))
      assert.deepEqual((await end()).json.error.code, 'NOT_FOUND', 'it has ended')
      const left = await service.get('/sessions', bearer(here.accessToken))
      assert.deepEqual(idsOf(left).toSorted(), [here.sessionId, elsewhere.sessionId].toSorted())
    })

    test('DELETE /sessions/{id} accepts the id in capitals, and may end the current session', async () => {
      const here = await service.browserLogin(await service.newUser())
      const path = `/sessions/${here.sessionId.toUpperCase()}`
      const answer = await service.delete(path, ownChange(here))
      assert.deepEqual([answer.status, answer.text], [200, NOTHING])
      assert.match(String(answer.headers['set-cookie']), /^__Host-session=; Max-Age=0; /)
      assertRefused(await service.get('/session', cookie(here.cookie)))
    })

    test('DELETE /sessions ends all other sessions of the user', async () => {
      const email = await service.newUser()
      const here = await service.browserLogin(email)
      const others = [await service.programLogin(email), await service.browserLogin(email)]
      const stranger = await service.programLogin(await service.newUser())
      const ended = await endedBy(service, async () => {
        const { status, text, headers } = await service.delete('/sessions', ownChange(here))
        assert.deepEqual([status, text, headers['set-cookie']], [200, NOTHING, undefined])
      })
      const expected = others.map(({ sessionId, userId }) => ['user', sessionId, userId])
      assert.deepEqual(new Set(ended.map(String)), new Set(expected.map(String)))
      for (const { refreshToken } of others) assertRefused(await service.refresh(refreshToken))
      assertRefused(await service.get('/session', cookie(others[1]?.cookie ?? '')))
      assert.deepEqual(idsOf(await service.get('/sessions', cookie(here.cookie))), [here.sessionId])
      assert.equal((await service.refresh(stranger.refreshToken)).status, 200)
      assert.equal((await service.delete('/sessions', bearer(here.accessToken))).text, NOTHING)
    })

    test('DELETE /sessions/{id} answers the same 404 for every id that is not a session of the user', async () => {
      const { accessToken } = await service.programLogin(await service.newUser())
      const stranger = await service.programLogin(await service.newUser())
      const ids = [stranger.sessionId, randomUUID(), 'x', '%00', '..%2f', "'%20or%201=1--"]
      const bodies = new Set<string>()
      for (const id of [...ids, 'x'.repeat(99), 'x'.repeat(2_000), `${stranger.sessionId}%20`]) {
        const { status, text } = await service.delete(`/sessions/${id}`, bearer(accessToken))
        assert.equal(status, 404, id)
        bodies.add(text)
      }
      assert.equal(bodies.size, 1)
      assert.equal((await service.refresh(stranger.refreshToken)).status, 200)
    })

    for (const way of ['token', 'rotated token', 'cookie']) {
      test(`a logout by ${way} ends the session, which is logged`, async () => {
        const login = await service.browserLogin(await service.newUser())
        const { refreshToken: successor } = (await service.refresh(login.refreshToken)).json.data
        const ended = await endedBy(service, async () => {
          const answer =
            way === 'cookie'
              ? await logoutWith(ownChange(login))
              : await service.logout(way === 'token' ? successor : login.refreshToken)
          assert.deepEqual([answer.status, answer.text], [200, NOTHING])
          assert.equal(answer.headers['set-cookie'] !== undefined, way === 'cookie')
          assert.equal(cookieIn(answer, SESSION_COOKIE), '')
        })
        assert.deepEqual(ended, [['logout', login.sessionId, login.userId]])
        for (const token of [successor, login.refreshToken]) {
          assertRefused(await service.refresh(token))
        }
        assertRefused(await service.get('/session', cookie(login.cookie)))
        assertRefused(await refreshWith(ownChange(login)))
        assertRefused(await service.delete('/sessions', ownChange(login)))
      })
    }

    test('logout gives the same answer with or without a valid credential; with a cookie it needs a CSRF token', async () => {
      const { refreshToken, accessToken } = await service.programLogin(await service.newUser())
      const ended = await service.browserLogin(await service.newUser())
      await service.logout(ended.refreshToken)
      const tokens = [refreshToken, refreshToken, accessToken, ended.refreshToken, 'garbage', '']
      for (const token of tokens) {
        const { status, text, headers } = await service.logout(token)
        assert.deepEqual([status, text, headers['set-cookie']], [200, NOTHING, undefined])
      }
      for (const headers of [{}, cookie('garbage'), ownChange(ended)]) {
        assert.equal((await logoutWith(headers)).text, NOTHING)
      }
      assert.equal((await logoutWith(cookie(ended.cookie))).text, CSRF_FAILED)
    })

    test('a logout by token does not end the session of a cookie sent with it', async () => {
      const email = await service.newUser()
      const [first, second] = [await service.browserLogin(email), await service.browserLogin(email)]
      const { refreshToken } = first
      const { text, headers } = await logoutWith(ownChange(second), { refreshToken })
      assert.deepEqual([text, headers['set-cookie']], [NOTHING, undefined])
      assert.equal(await statusByCookie(second.cookie), 200)
    })

    for (const [expected, bodies] of Object.entries(ODD_BODIES)) {
      const isNone = expected.startsWith('401')
      test(`refresh answers ${expected}, and logout ${isNone ? 200 : 'the same'}`, async () => {
        for (const [name, body] of Object.entries(bodies)) {
          const { status, text, json } = await service.call({ path: `${AUTH}/refresh`, ...body })
          const { code, fields = [] } = json.error
          assert.equal([status, code, ...fields].join(' '), expected, name)
          const loggedOut = await service.call({ path: `${AUTH}/logout`, ...body })
          const answer = isNone ? [200, NOTHING] : [status, text]
          assert.deepEqual([loggedOut.status, loggedOut.text], answer, name)
        }
      })
    }

    test('a body without a token does not matter if there is another credential', async () => {
      const email = await service.newUser()
      const { accessToken } = await service.programLogin(email)
      const body = { refresh_token: 'x' }
      assert.equal((await logoutWith(bearer(accessToken), body)).status, 200)
      assertRefused(await sessionWith(accessToken))
      const browser = await service.browserLogin(email)
      for (const send of [refreshWith, logoutWith]) {
        assert.equal((await send(ownChange(browser), body)).status, 200)
      }
    })
  })
}

test('a request that reads its session by the cookie ends before the store closes', async () => {
  const paths = ['/session', '/sessions', '/verify']
  let waiting = 0
  const wait = () => {
    waiting++
    return new Promise<never>(() => {})
  }
  const service = await startTestService('sqlite', {}, null, undefined, store => ({
    ...store,
    sessions: { ...store.sessions, findLiveByCookie: wait },
  }))
  for (const path of paths) {
    const call = { method: 'GET', path: `${AUTH}${path}`, headers: cookie('A'.repeat(43)) }
    service.call(call).catch(() => {})
  }
  await until(async () => waiting === paths.length)
  await service.stop()
  const cutOff = service.logged().find(({ event }) => event === 'service.cut_off')
  assert.equal(cutOff?.unfinished, paths.length)
})
