// GET /session tells the user when and from where the last login was, and how many attempts failed since.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { createAddresses, PASSWORD } from '../support/service.ts'
import { bearer, cookie, DAY_MS, MINUTE_MS, ownSessions } from '../support/session-client.ts'

for (const engine of ENGINES_BY_RUN) {
  describe(`the last login on ${engine}`, async () => {
    const service = await ownSessions(engine)
    const newAddress = createAddresses()
    const lastLogin = async ({ accessToken }: { accessToken: string }) =>
      (await service.get('/session', bearer(accessToken))).json.data.session.lastLogin
    const failuresSince = async (email: string) =>
      (await lastLogin(await service.programLogin(email)))?.failuresSince
    const fail = async (email: string, times: number, from = newAddress()) => {
      for (let i = 0; i < times; i++) {
        assert.equal((await service.login(email, 'wrong', from)).status, 401)
      }
    }

    test('is that before the session’s own, with the failures in between, whatever happens later', async () => {
      const email = await service.newUser()
      await fail(email, 1)
      const first = await service.browserLogin(email, {
        headers: { 'User-Agent': 'Browser/1.0' },
        from: '127.5.0.2',
      })
      const { session } = (await service.get('/session', bearer(first.accessToken))).json.data
      assert.equal(session.lastLogin, null)

      service.advance(MINUTE_MS)
      await fail(email, 3)
      const second = await service.browserLogin(email)
      const ip = '127.5.0.2'
      const counts = { failuresSince: 3, guessesSince: 0 }
      const told = { at: session.createdAt, userAgent: 'Browser/1.0', ip, ...counts }
      assert.deepEqual(await lastLogin(second), told)

      await fail(email, 2)
      service.advance(MINUTE_MS)
      assert.equal(await failuresSince(email), 2)
      const refreshed = await service.refresh(second.refreshToken)
      const byCookie = await service.get('/session', cookie(second.cookie))
      assert.deepEqual(await lastLogin(refreshed.json.data), told)
      assert.deepEqual(byCookie.json.data.session.lastLogin, told)
      assert.equal(await lastLogin(first), null)
    })

    test('attempts that the throttle refuses are not counted, and are not written to the user', async () => {
      const email = await service.newUser()
      const from = newAddress()
      const { userId } = await service.programLogin(email)
      await fail(email, 5, from)
      const rowOf = () =>
        service.database.rows(
          `select ${engine === 'postgres' ? 'xmin, ' : ''}* from users where id = '${userId}'`,
        )
      const before = await rowOf()
      for (let i = 0; i < 21; i++) {
        assert.equal((await service.login(email, 'wrong', from)).status, 429)
      }
      assert.deepEqual(await rowOf(), before)
      assert.equal(await failuresSince(email), 5)
    })

    test('attempts at a user that is locked by an administrator or inactive are counted', async () => {
      const email = await service.newUser()
      await service.programLogin(email)
      const users = byEmail(service.store)
      const change = changeAt(service.now())
      await users.lock(email, new Date(change.at.getTime() + DAY_MS), change)
      await fail(email, 1)
      assert.equal((await service.login(email, PASSWORD)).status, 401)
      await users.unlock(email, change)
      await users.deactivate(email, change)
      assert.equal((await service.login(email, PASSWORD)).status, 401)
      await users.activate(email, change)
      assert.equal(await failuresSince(email), 3)
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
