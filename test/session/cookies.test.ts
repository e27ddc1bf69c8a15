import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { describe, test } from 'node:test'
import { digestOf } from '../../src/system/identifiers.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { PASSWORD } from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  DAY_MS,
  DEVICE_COOKIE,
  INVALID_TOKEN,
  MINUTE_MS,
  ownChange,
  ownSessions,
  SECOND_MS,
  SESSION_COOKIE,
} from '../support/session-client.ts'

const ATTRIBUTES = ['HttpOnly', 'Path=/', 'SameSite=Strict', 'Secure']
/** The length of 256 random bits; the device cookie adds a tag of 128 bits. */
const SESSION_CHARACTERS = 43
const DEVICE_CHARACTERS = 65
const MAX_AGE = `Max-Age=${180 * 24 * 3600}`
const IDLE_MS = 30 * MINUTE_MS

for (const engine of ENGINES_BY_RUN) {
  describe(`cookies on ${engine}`, async () => {
    const service = await ownSessions(engine)

    const statusWith = async (value: string) =>
      (await service.get('/session', cookie(value))).status
    const refreshWith = (headers: OutgoingHttpHeaders, body?: object) =>
      service.call({ path: `${AUTH}/refresh`, headers, ...(body && { body }) })

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

    test('a login never adopts a session cookie that the client sends, and ends its session', async () => {
      const email = await service.newUser()
      const chosen = 'A'.repeat(43)
      const before = await service.browserLogin(email)
      for (const brought of [chosen, before.cookie]) {
        const login = await service.browserLogin(email, { headers: cookie(brought) })
        assert.notEqual(login.cookie, brought)
        assert.notEqual(login.sessionId, before.sessionId)
      }
      assert.equal(await statusWith(chosen), 401)
      assert.equal(await statusWith(before.cookie), 401, 'its session was replaced')
    })

    test('only the digests of the session cookie and the device cookie are stored', async () => {
      const login = await service.browserLogin(await service.newUser())
      const [session] = await service.database.rows(
        `select cookie_digest from sessions where id = '${login.sessionId}'`,
      )
      assert.equal(session?.cookie_digest, digestOf(login.cookie))
      const devices = await service.database.rows('select token from devices')
      assert.ok(devices.some(({ token }) => token === digestOf(login.device)))
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
        const session = await service.get('/session', bearer(answer.json.data.accessToken))
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
      const refused = [
        await service.get('/session', { ...cookie(first.cookie), ...bearer('garbage') }),
        await service.get('/session', { ...cookie(first.cookie), Authorization: 'Bearer' }),
        await service.delete('/sessions', { ...ownChange(first), ...bearer('garbage') }),
        await refreshWith(ownChange(first), { refreshToken: 'garbage' }),
        await refreshWith(ownChange(first), { refreshToken }),
        await service.get('/session', cookie(second.cookie)),
      ]
      for (const { status, text, headers } of refused) {
        assert.deepEqual([status, text, headers['set-cookie']], [401, INVALID_TOKEN, undefined])
      }
      assert.equal(await statusWith(first.cookie), 200)
    })

    test('a cookie that differs from the issued one in name or value is refused', async () => {
      const { cookie: value, device } = await service.browserLogin(await service.newUser())
      const changed = [`${value}=`, `${value}=x`, `"${value}"`, `${value}A`, value.slice(1)]
      for (const other of [...changed, '', device])
        assert.equal(await statusWith(other), 401, other)
      const named = (name: string) => service.get('/session', cookie(value, name))
      for (const name of ['session', '__host-session', 'x__Host-session', DEVICE_COOKIE]) {
        assert.equal((await named(name)).status, 401, name)
      }
      const among = { Cookie: `a=b; ${SESSION_COOKIE}=${value}; c` }
      assert.equal((await service.get('/session', among)).status, 200)
    })

    test('a cookie in constant use is accepted for 30 days, even if the refresh token expires unused', async t => {
      service.stopClock(t)
      const login = await service.browserLogin(await service.newUser())
      const { cookie: value, refreshToken, sessionId } = login
      const { session } = (await service.get('/session', cookie(value))).json.data
      const opened = Date.parse(session.createdAt)
      /** Moves the clock to the moment, as if the cookie had been in constant use until then. */
      const useUntil = async (moment: number) => {
        service.advanceTo(moment - IDLE_MS / 2)
        const until = new Date(moment + IDLE_MS / 2)
        await service.store.sessions.touchCookie(sessionId, until, service.now(), service.now())
        service.advanceTo(moment)
      }
      await useUntil(opened + 7 * DAY_MS - 10 * MINUTE_MS)
      assert.equal(await statusWith(value), 200)
      service.advance(20 * MINUTE_MS)
      assert.equal(await statusWith(value), 200, 'after seven days')
      assert.equal((await service.refresh(refreshToken)).status, 401)
      await useUntil(opened + 30 * DAY_MS - 2 * SECOND_MS)
      assert.equal(await statusWith(value), 200)
      service.advanceTo(opened + 30 * DAY_MS + SECOND_MS)
      assert.equal(await statusWith(value), 401)
    })
  })
}
