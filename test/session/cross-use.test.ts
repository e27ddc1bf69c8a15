import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { type Answer, PASSWORD } from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  cookieIn,
  DEVICE_COOKIE,
  type Login,
  ownChange,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

const CREDENTIALS = ['accessToken', 'refreshToken', 'cookie', 'device', 'csrf'] as const
type Credential = (typeof CREDENTIALS)[number]

type Place = {
  name: string
  belongs: Credential
  /** Sends the value in this place; every other part of the request is valid. */
  present: (service: SessionService, login: Login, value: string) => Promise<Answer>
  /** The statuses that answer a value of another kind. */
  refused: number[]
}

const PLACES: Place[] = [
  {
    name: 'the bearer of GET /session',
    belongs: 'accessToken',
    present: (service, _login, value) => service.get('/session', bearer(value)),
    refused: [401],
  },
  {
    name: 'the bearer of DELETE /sessions',
    belongs: 'accessToken',
    present: (service, _login, value) => service.delete('/sessions', bearer(value)),
    refused: [401],
  },
  {
    name: 'the session cookie of GET /session',
    belongs: 'cookie',
    present: (service, _login, value) => service.get('/session', cookie(value)),
    refused: [401],
  },
  {
    name: 'the session cookie of POST /refresh',
    belongs: 'cookie',
    present: (service, login, value) =>
      service.call({ path: `${AUTH}/refresh`, headers: ownChange({ ...login, cookie: value }) }),
    refused: [401, 403],
  },
  {
    name: 'the CSRF token of POST /refresh',
    belongs: 'csrf',
    present: (service, login, value) =>
      service.call({ path: `${AUTH}/refresh`, headers: ownChange({ ...login, csrf: value }) }),
    refused: [403],
  },
  {
    name: 'the CSRF token of DELETE /sessions',
    belongs: 'csrf',
    present: (service, login, value) =>
      service.delete('/sessions', ownChange({ ...login, csrf: value })),
    refused: [403],
  },
  {
    name: 'the body of POST /refresh',
    belongs: 'refreshToken',
    present: (service, _login, value) => service.refresh(value),
    refused: [401],
  },
]

for (const engine of ENGINES_BY_RUN) {
  describe(`credentials in the place of another kind, on ${engine}`, () => {
    let service: SessionService
    let login: Login
    before(async () => {
      service = await startSessionService(engine)
      await service.addUser('kate@example.com')
      login = await service.browserLogin('kate@example.com')
    })
    after(async () => {
      await service.assertSecretsKept()
      await service.stop()
    })

    async function assertAlive(): Promise<void> {
      for (const headers of [bearer(login.accessToken), cookie(login.cookie)]) {
        const { status, json } = await service.get('/session', headers)
        assert.deepEqual([status, json.data.session.id], [200, login.sessionId])
      }
    }

    for (const { name, belongs, present, refused } of PLACES) {
      for (const credential of CREDENTIALS.filter(other => other !== belongs)) {
        test(`${credential} is refused as ${name}`, async () => {
          const { status, json, headers } = await present(service, login, login[credential])
          assert.ok(refused.includes(status), String(status))
          assert.equal(json.error.code, status === 401 ? 'INVALID_TOKEN' : 'CSRF_FAILED')
          assert.equal(json.data, undefined)
          assert.equal(headers['set-cookie'], undefined)
          await assertAlive()
        })
      }

      test(`${belongs} is accepted as ${name}`, async () => {
        const { status, text, json } = await present(service, login, login[belongs])
        assert.equal(status, 200, text)
        if (json.data.refreshToken) login = { ...login, refreshToken: json.data.refreshToken }
        await assertAlive()
      })
    }

    for (const credential of CREDENTIALS.filter(other => other !== 'refreshToken')) {
      test(`${credential} ends no session when it is sent as the refresh token of a logout`, async () => {
        assert.equal((await service.logout(login[credential])).text, '{"success":true,"data":{}}')
        await assertAlive()
      })
    }

    for (const credential of CREDENTIALS) {
      const isOwn = credential === 'device'
      test(`a login with ${credential} as the device cookie ${isOwn ? 'keeps its' : 'gets a new'} device`, async () => {
        const answer = await service.call({
          headers: { 'Sec-Fetch-Site': 'same-origin', ...cookie(login[credential], DEVICE_COOKIE) },
          body: { email: 'kate@example.com', password: PASSWORD },
        })
        assert.equal(answer.status, 200)
        assert.equal(cookieIn(answer, DEVICE_COOKIE) === login.device, isOwn)
        await assertAlive()
      })
    }

    test('no credential is accepted as a password', async () => {
      for (const credential of CREDENTIALS) {
        const { status } = await service.login('kate@example.com', login[credential], '127.5.0.1')
        assert.equal(status, 401)
      }
      await assertAlive()
    })
  })
}
