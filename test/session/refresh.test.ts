import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { readKeyFile, replaceKeyFile } from '../../src/keys/key-file.ts'
import { rotate } from '../../src/keys/rotation.ts'
import { purgeAll } from '../storage/fixtures.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { type Answer, createAddresses, loggedBy, PASSWORD } from '../support/service.ts'
import {
  bearer,
  INVALID_TOKEN,
  type Login,
  MINUTE_MS,
  ownSessions,
  SECOND_MS,
} from '../support/session-client.ts'

/** A repetition counts as one only if it comes from the same client. */
const OWNER = '127.3.0.1'

for (const engine of ENGINES_BY_RUN) {
  describe(`refresh on ${engine}`, async () => {
    const service = await ownSessions(engine, {}, createAddresses())

    async function newLogin() {
      const email = await service.newUser()
      return { email, ...(await service.programLogin(email)) }
    }

    /** The successor that a token gets. */
    async function rotated(refreshToken: string): Promise<string> {
      const { status, text, json } = await service.refresh(refreshToken, OWNER)
      assert.equal(status, 200, text)
      return json.data.refreshToken
    }

    function assertInvalid({ status, text, headers }: Answer): void {
      assert.deepEqual([status, text], [401, INVALID_TOKEN])
      assert.equal(headers['set-cookie'], undefined)
      assert.equal(headers['cache-control'], 'no-store')
    }
    async function assertRefused(...refreshTokens: string[]): Promise<void> {
      for (const token of refreshTokens) assertInvalid(await service.refresh(token))
    }

    test('a refresh token gets a new pair, in the same form as a login, and that is logged', async () => {
      const { answer: login, refreshToken, accessToken, sessionId, userId } = await newLogin()
      const lines = await loggedBy(service, async () => {
        const { status, json, headers } = await service.refresh(refreshToken)
        assert.equal(status, 200)
        assert.deepEqual(Object.keys(json), ['success', 'data'])
        assert.deepEqual(Object.keys(json.data), Object.keys(login.json.data))
        assert.deepEqual([json.data.user, json.data.expiresIn], [login.json.data.user, 3600])
        assert.notEqual(json.data.refreshToken, refreshToken)
        assert.notEqual(json.data.accessToken, accessToken)
        assert.equal(headers['cache-control'], 'no-store')
        assert.equal(headers['set-cookie'], undefined)
        const claims = decodeJwt(json.data.accessToken)
        assert.deepEqual([claims.sid, claims.sub], [sessionId, userId])
        const session = await service.get('/session', bearer(json.data.accessToken))
        assert.equal(session.status, 200)
      })
      const [line, ...others] = lines
      const expected = { event: 'session.refreshed', level: 'info', sessionId, userId }
      assert.partialDeepStrictEqual(line, expected)
      assert.match(String(line?.ip), /^127\./)
      assert.ok(line?.requestId)
      assert.deepEqual(others, [])
    })

    test('after a key rotation a replaced token still gets the same successor', async () => {
      const { refreshToken } = await newLogin()
      const path = join(service.dataDir, 'signing-keys.json')
      const keyFile = await rotate(await readKeyFile(path), service.now(), 0)
      const successor = await rotated(refreshToken)
      await replaceKeyFile(path, keyFile)
      await until(async () => service.logText().includes('keys.reloaded'))
      const kidOf = (token: string) => decodeProtectedHeader(token).kid
      assert.equal(await rotated(refreshToken), successor)
      assert.equal(kidOf(successor), kidOf(refreshToken))
      assert.notEqual(kidOf(await rotated(successor)), kidOf(refreshToken))
    })

    for (const usesSuccessor of [true, false]) {
      const name = usesSuccessor
        ? 'within the grace period, after its successor was used'
        : 'after the grace period, which repetitions do not extend'
      test(`a replaced token ends its session: ${name}`, async t => {
        service.stopClock(t)
        const { refreshToken, userId, sessionId, accessToken, email } = await newLogin()
        const other = await service.programLogin(email)
        const successor = await rotated(refreshToken)
        const tokens = [refreshToken, successor]
        if (usesSuccessor) {
          tokens.push(await rotated(successor))
        } else {
          for (const seconds of [30, 29]) {
            service.advance(seconds * SECOND_MS)
            assert.equal(await rotated(refreshToken), successor)
          }
          service.advance(2 * SECOND_MS)
        }
        const lines = await loggedBy(service, async () =>
          assertInvalid(await service.refresh(refreshToken, OWNER)),
        )
        assert.equal(lines.length, 2)
        assert.equal(lines[0]?.otherCaller, undefined)
        assert.partialDeepStrictEqual(lines, [
          { event: 'session.reuse_detected', level: 'error', sessionId, userId },
          { event: 'session.ended', level: 'info', reason: 'reuse', sessionId, userId },
        ])
        const afterwards = await loggedBy(service, () => assertRefused(...tokens))
        const told = afterwards.map(({ event, reason }) => [event, reason])
        assert.deepEqual(told, Array(tokens.length).fill(['session.refused', 'session-ended']))
        assert.equal((await service.get('/session', bearer(accessToken))).status, 401)
        await rotated(other.refreshToken)
      })
    }

    test('a token ends its session although its row was purged or lost', async () => {
      const remove = ({ refreshToken }: { refreshToken: string }) =>
        service.database.rows(
          `delete from refresh_tokens where id = '${decodeJwt(refreshToken).jti}'`,
        )
      for (const [name, lose] of Object.entries({
        'replaced 65 minutes ago': async ({ refreshToken }: Login) => {
          await rotated(refreshToken)
          service.advance(66 * MINUTE_MS)
          await purgeAll(service.store, service.now())
        },
        'issued after the backup that was restored': remove,
      })) {
        const login = await newLogin()
        const { refreshToken, sessionId, userId } = login
        await lose(login)
        const rows = `select id from refresh_tokens where id = '${decodeJwt(refreshToken).jti}'`
        assert.deepEqual(await service.database.rows(rows), [], name)
        const lines = await loggedBy(service, () => assertRefused(refreshToken, refreshToken))
        const session = { sessionId, userId }
        assert.partialDeepStrictEqual(lines, [
          { event: 'session.reuse_detected', level: 'error', ...session },
          { event: 'session.ended', reason: 'reuse', ...session },
          { event: 'session.refused', reason: 'session-ended' },
        ])
        assert.equal(lines.length, 3)
      }
    })

    test('a logout by a replaced token ends its session, also when its row was purged', async () => {
      const { refreshToken } = await newLogin()
      const successor = await rotated(refreshToken)
      service.advance(66 * MINUTE_MS)
      await purgeAll(service.store, service.now())
      assert.equal((await service.logout(refreshToken)).status, 200)
      await assertRefused(successor)
    })

    test('a lock by the throttle does not stop refresh, and refresh changes neither lock nor counters', async () => {
      const { email, refreshToken } = await newLogin()
      for (let i = 1; i <= 21; i++) await service.login(email, 'wrong', `127.2.0.${i}`)
      const counters = () =>
        Promise.all([
          service.database.rows('select * from login_throttle order by key'),
          service.database.rows(
            `select locked_until, locked_by, failed_login_attempts from users where email = '${email}'`,
          ),
        ])
      const locked = await counters()
      assert.equal(locked[1][0]?.locked_by, 'throttle')
      const successor = await rotated(refreshToken)
      assert.equal(await rotated(refreshToken), successor)
      assert.deepEqual(await counters(), locked)
      assert.equal((await service.login(email, PASSWORD, '127.2.1.1')).status, 429)
    })
  })
}
