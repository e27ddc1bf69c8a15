import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { type Answer, PASSWORD } from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  cookieIn,
  DEVICE_COOKIE,
  ownChange,
  ownSessions,
} from '../support/session-client.ts'

const CREDENTIALS = ['accessToken', 'refreshToken', 'cookie', 'device', 'csrf'] as const
type Credential = (typeof CREDENTIALS)[number]

for (const engine of ENGINES_BY_RUN) {
  describe(`credentials in the place of another kind, on ${engine}`, async () => {
    const service = await ownSessions(engine)
    await service.addUser('kate@example.com')
    const login = await service.browserLogin('kate@example.com')

    async function assertAlive(): Promise<void> {
      for (const headers of [bearer(login.accessToken), cookie(login.cookie)]) {
        const { status, json } = await service.get('/session', headers)
        assert.deepEqual([status, json.data.session.id], [200, login.sessionId])
      }
    }

    const refreshByCookie = (changed: object) =>
      service.call({ path: `${AUTH}/refresh`, headers: ownChange({ ...login, ...changed }) })
    /** The statuses answer a value of another kind. Every other part of the request is valid. */
    const PLACES: [
      name: string,
      belongs: Credential,
      refused: number[],
      present: (value: string) => Promise<Answer>,
    ][] = [
      ['bearer', 'accessToken', [401], value => service.get('/session', bearer(value))],
      ['session cookie', 'cookie', [401], value => service.get('/session', cookie(value))],
      ['cookie of a refresh', 'cookie', [401, 403], value => refreshByCookie({ cookie: value })],
      ['CSRF token', 'csrf', [403], value => refreshByCookie({ csrf: value })],
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
  })
}
