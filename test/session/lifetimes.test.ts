// How long sessions last, as SESSION_IDLE_MINUTES and SESSION_MAX_DAYS say.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeJwt } from 'jose'
import { startConsole } from '../support/console.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import {
  bearer,
  cookie,
  DAY_MS,
  MINUTE_MS,
  ownChange,
  ownSessions,
  SECOND_MS,
} from '../support/session-client.ts'
import { createVisitor } from '../support/visitor.ts'

const expiryOf = (token: string) => Number(decodeJwt(token).exp) * SECOND_MS

for (const engine of ENGINES_BY_RUN) {
  for (const [minutes, days] of [
    [5, 1],
    [1_440, 90],
  ] as const) {
    describe(`lifetimes of ${minutes} minutes and ${days} days on ${engine}`, async () => {
      const service = await ownSessions(engine, {
        SESSION_IDLE_MINUTES: String(minutes),
        SESSION_MAX_DAYS: String(days),
      })

      test('a cookie that is not used for these minutes is refused; its refresh token still works', async () => {
        const login = await service.browserLogin(await service.newUser())
        const statusOfCookie = async () =>
          (await service.get('/session', cookie(login.cookie))).status
        for (let uses = 0; uses < 3; uses++) {
          service.advance((minutes - 1) * MINUTE_MS)
          assert.equal(await statusOfCookie(), 200)
        }
        service.advance(minutes * MINUTE_MS)
        assert.equal(await statusOfCookie(), 401)
        assert.equal((await service.delete('/sessions', ownChange(login))).status, 401)
        assert.equal((await service.refresh(login.refreshToken)).status, 200)
        assert.equal(await statusOfCookie(), 401, 'a refresh by token does not revive the cookie')
      })

      test('a session in constant use ends this many days after its login, and its tokens with it', async () => {
        const login = await service.programLogin(await service.newUser())
        const { session } = (await service.get('/session', bearer(login.accessToken))).json.data
        const opened = Date.parse(session.createdAt)
        const end = Date.parse(session.expiresAt)
        assert.equal(end - opened, days * DAY_MS)
        let { refreshToken, accessToken } = login
        for (let moment = opened; moment < end; moment += 6 * DAY_MS) {
          const next = Math.min(moment + 6 * DAY_MS, end - MINUTE_MS)
          service.advanceTo(next)
          const { status, json } = await service.refresh(refreshToken)
          assert.equal(status, 200)
          ;({ refreshToken, accessToken } = json.data)
          for (const token of [refreshToken, accessToken]) {
            assert.ok(expiryOf(token) <= end, 'no token outlives the session')
          }
          assert.ok(json.data.expiresIn <= (end - next) / SECOND_MS)
        }
        service.advanceTo(end)
        assert.equal((await service.refresh(refreshToken)).status, 401)
        assert.equal((await service.get('/session', bearer(accessToken))).status, 401)
      })
    })
  }

  describe(`sessions of a clock that was a year ahead on ${engine}`, async () => {
    const service = await own(startConsole(engine))
    const admin = await service.newPerson('admin')

    for (const [where, path, visitor] of [
      ['on the page', '/login', () => createVisitor(service)],
      ['at the console', '/console/people', service.visitor],
    ] as const) {
      test(`${where}, the user logs in again, which ends that session`, async () => {
        const visiting = visitor()
        service.advance(365 * DAY_MS)
        await visiting.logIn(admin.email)
        const isIn = async () => {
          const { status, text } = await visiting.get(path)
          return status === 200 && !text.includes('name="password"')
        }
        assert.ok(await isIn())
        service.advance(-365 * DAY_MS)
        assert.ok(!(await isIn()))
        assert.match((await visiting.get('/login')).text, /name="password"/)
        const live = await service.store.sessions.countLive(admin.id, service.now())
        await visiting.logIn(admin.email)
        assert.ok(await isIn())
        assert.equal(await service.store.sessions.countLive(admin.id, service.now()), live)
      })
    }
  })
}
