import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import type { Answer, Call } from '../support/service.ts'
import {
  AUTH,
  bearer,
  CSRF_FAILED,
  cookie,
  cookieIn,
  DAY_MS,
  endedBy,
  INVALID_TOKEN,
  MINUTE_MS,
  ownChange,
  ownSessions,
  SECOND_MS,
  SESSION_COOKIE,
} from '../support/session-client.ts'

const NOTHING = '{"success":true,"data":{}}'
const FIELDS = ['id', 'createdAt', 'lastUsedAt', 'expiresAt', 'userAgent', 'ip', 'current']

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

    function assertRefused(answer: Answer): void {
      assert.deepEqual([answer.status, answer.text], [401, INVALID_TOKEN])
      assert.equal(answer.headers['set-cookie'], undefined)
      assert.equal(answer.headers['cache-control'], 'no-store')
    }
    const idsOf = ({ json }: Answer) => json.data.sessions.map(({ id }) => id)

    test('GET /session shows the user and the session', async () => {
      const { answer: login, ...opened } = await service.browserLogin(await service.newUser(), {
        headers: { 'User-Agent': 'Browser/1.0 (X11)' },
        from: '127.3.0.1',
      })
      const ways = { bearer: bearer(opened.accessToken), cookie: cookie(opened.cookie) }
      for (const [way, headers] of Object.entries(ways)) {
        const answer = await service.get('/session', headers)
        assert.equal(answer.status, 200)
        assert.deepEqual(Object.keys(answer.json.data), ['user', 'session'])
        const { user, session } = answer.json.data
        assert.deepEqual(user, login.json.data.user)
        assert.deepEqual(Object.keys(session), [...FIELDS, 'lastLogin'])
        assert.deepEqual(
          [session.id, session.userAgent, session.ip, session.current],
          [opened.sessionId, 'Browser/1.0 (X11)', '127.3.0.1', true],
        )
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
        assert.equal((await service.get('/session', cookie(value))).status, 200)
        const [row = {}] = await service.database.rows(
          `select last_used_at, idle_expires_at, expires_at from sessions where id = '${sessionId}'`,
        )
        // PostgreSQL gives dates, SQLite texts.
        const times: string[] = Object.values(JSON.parse(JSON.stringify(row)))
        const seconds = times.map(at => Math.round((Date.parse(at) - start) / SECOND_MS))
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
      assertRefused(await service.get('/session', bearer(there.accessToken)))
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
              ? await service.call({ path: `${AUTH}/logout`, headers: ownChange(login) })
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
        const headers = ownChange(login)
        assertRefused(await service.call({ path: `${AUTH}/refresh`, headers }))
        assertRefused(await service.delete('/sessions', headers))
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
      const path = `${AUTH}/logout`
      assert.equal((await service.call({ path })).text, NOTHING)
      assert.equal((await service.call({ path, headers: cookie('garbage') })).text, NOTHING)
      assert.equal((await service.call({ path, headers: ownChange(ended) })).text, NOTHING)
      assert.equal((await service.call({ path, headers: cookie(ended.cookie) })).text, CSRF_FAILED)
    })

    test('a logout by token does not end the session of a cookie sent with it', async () => {
      const email = await service.newUser()
      const [first, second] = [await service.browserLogin(email), await service.browserLogin(email)]
      const answer = await service.call({
        path: `${AUTH}/logout`,
        headers: ownChange(second),
        body: { refreshToken: first.refreshToken },
      })
      assert.deepEqual([answer.text, answer.headers['set-cookie']], [NOTHING, undefined])
      assert.equal((await service.get('/session', cookie(second.cookie))).status, 200)
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
      const path = `${AUTH}/logout`
      assert.equal((await service.call({ path, body, headers: bearer(accessToken) })).status, 200)
      assert.equal((await service.get('/session', bearer(accessToken))).status, 401)
      const browser = await service.browserLogin(email)
      for (const path of [`${AUTH}/refresh`, `${AUTH}/logout`]) {
        assert.equal((await service.call({ path, body, headers: ownChange(browser) })).status, 200)
      }
    })
  })
}
