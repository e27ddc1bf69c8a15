// GET /session tells the user when and from where the last login was, and how many attempts failed since.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { PASSWORD } from '../support/service.ts'
import {
  bearer,
  cookie,
  DAY_MS,
  MINUTE_MS,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

for (const engine of ENGINES_BY_RUN) {
  describe(`the last login on ${engine}`, () => {
    let service: SessionService
    before(async () => {
      service = await startSessionService(engine)
    })
    after(async () => {
      await service.assertSecretsKept()
      await service.stop()
    })

    const lastLogin = async ({ accessToken }: { accessToken: string }) =>
      (await service.get('/session', bearer(accessToken))).json.data.session.lastLogin
    const failuresSince = async (email: string) =>
      (await lastLogin(await service.programLogin(email)))?.failuresSince
    const failFrom = async (email: string, from: string, times: number) => {
      for (let i = 0; i < times; i++) {
        assert.equal((await service.login(email, 'wrong', from)).status, 401)
      }
    }

    test('is that before the session’s own, with the failures in between, whatever happens later', async () => {
      const email = await service.newUser()
      await failFrom(email, '127.5.0.1', 1)
      const first = await service.browserLogin(email, {
        headers: { 'User-Agent': 'Browser/1.0' },
        from: '127.5.0.2',
      })
      const firstAt = (await service.get('/session', bearer(first.accessToken))).json.data.session
      assert.equal(firstAt.lastLogin, null)

      service.advance(MINUTE_MS)
      await failFrom(email, '127.5.0.3', 3)
      const second = await service.browserLogin(email)
      const told = {
        at: firstAt.createdAt,
        userAgent: 'Browser/1.0',
        ip: '127.5.0.2',
        failuresSince: 3,
      }
      assert.deepEqual(await lastLogin(second), told)

      await failFrom(email, '127.5.0.4', 2)
      service.advance(MINUTE_MS)
      const third = await service.programLogin(email)
      assert.equal((await lastLogin(third))?.failuresSince, 2)
      const refreshed = await service.refresh(second.refreshToken)
      const byCookie = await service.get('/session', cookie(second.cookie))
      assert.deepEqual(await lastLogin(refreshed.json.data), told)
      assert.deepEqual(byCookie.json.data.session.lastLogin, told)
      assert.equal(await lastLogin(first), null)
    })

    test('is told by no other answer', async () => {
      const email = await service.newUser()
      await service.programLogin(email)
      const { answer, accessToken, refreshToken } = await service.programLogin(email)
      const list = await service.get('/sessions', bearer(accessToken))
      const refreshed = await service.refresh(refreshToken)
      for (const { status, text } of [answer, list, refreshed]) {
        assert.equal(status, 200)
        assert.doesNotMatch(text, /lastLogin|failuresSince/)
      }
    })

    test('failures count however old they are, and after an unlock', async () => {
      const email = await service.newUser()
      await service.programLogin(email)
      await failFrom(email, '127.5.1.1', 2)
      await byEmail(service.store).unlock(email, changeAt(service.now()))
      service.advance(100 * DAY_MS)
      await failFrom(email, '127.5.1.1', 1)
      assert.equal(await failuresSince(email), 3)
    })

    test('attempts that the throttle refuses are not counted, and are not written to the user', async () => {
      const email = await service.newUser()
      const { userId } = await service.programLogin(email)
      await failFrom(email, '127.5.2.1', 5)
      assert.equal((await service.login(email, 'wrong', '127.5.2.1')).status, 429)
      const rowOf = () =>
        service.database.rows(
          `select ${engine === 'postgres' ? 'xmin, ' : ''}* from users where id = '${userId}'`,
        )
      const before = await rowOf()
      for (let i = 0; i < 20; i++) {
        assert.equal((await service.login(email, 'wrong', '127.5.2.1')).status, 429)
      }
      assert.deepEqual(await rowOf(), before)
      assert.equal(await failuresSince(email), 5)
    })

    test('attempts at a user that is locked by an administrator or inactive are counted', async () => {
      const email = await service.newUser()
      await service.programLogin(email)
      const change = () => changeAt(service.now())
      await byEmail(service.store).lock(email, new Date(service.now().getTime() + DAY_MS), change())
      await failFrom(email, '127.5.3.1', 1)
      assert.equal((await service.login(email, PASSWORD, '127.5.3.2')).status, 401)
      await byEmail(service.store).unlock(email, change())
      await byEmail(service.store).deactivate(email, change())
      assert.equal((await service.login(email, PASSWORD, '127.5.3.2')).status, 401)
      await byEmail(service.store).activate(email, change())
      assert.equal(await failuresSince(email), 3)
    })

    test('of a user that was deleted and added again is not known', async () => {
      const email = await service.newUser()
      await service.programLogin(email)
      await failFrom(email, '127.5.4.1', 1)
      await byEmail(service.store).delete(email, changeAt(service.now()))
      await failFrom(email, '127.5.4.1', 1)
      await service.addUser(email)
      assert.equal(await lastLogin(await service.programLogin(email)), null)
    })

    test('may be later than the login, if the clock was set back in between', async () => {
      const email = await service.newUser()
      service.advance(DAY_MS)
      const ahead = await service.programLogin(email)
      service.advance(-DAY_MS)
      const { sessionId, accessToken } = await service.programLogin(email)
      const { session } = (await service.get('/session', bearer(accessToken))).json.data
      assert.equal(session.id, sessionId)
      assert.ok(session.lastLogin && session.lastLogin.at > session.createdAt)
      assert.equal(await lastLogin(ahead), null)
      const next = await lastLogin(await service.programLogin(email))
      assert.equal(next?.at, session.createdAt)
    })
  })
}
