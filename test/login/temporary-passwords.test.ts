import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { changeAt } from '../storage/fixtures.ts'
import { type AdminService, startAdminService } from '../support/admin-service.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { until } from '../support/process.ts'
import {
  countStatuses,
  createAddresses,
  loggedBy,
  PASSWORD,
  TEST_COST,
} from '../support/service.ts'
import { AUTH, MINUTE_MS } from '../support/session-client.ts'

const HOUR_MS = 60 * MINUTE_MS
const NEW_PASSWORD = 'seven green boats at noon'
const GENERATED = /^[\da-hjkmnp-tv-z]{4}(-[\da-hjkmnp-tv-z]{4}){4}$/
const CHANGE_REQUIRED =
  '{"success":false,"error":{"code":"PASSWORD_CHANGE_REQUIRED","message":"This password is temporary. Please set a new one."}}'
const REJECTED =
  '{"success":false,"error":{"code":"INVALID_CREDENTIALS","message":"Invalid email or password"}}'

for (const engine of ENGINES_BY_RUN) {
  describe(`temporary passwords on ${engine}`, () => {
    let service: AdminService
    /** The attempts that have read their user, and how many of them must do so before one succeeds. */
    const started = new Set<object>()
    let startedBeforeSuccess = 0
    before(async () => {
      service = await startAdminService(engine, {}, store => ({
        ...store,
        attempts: {
          ...store.attempts,
          async reserve(scopes, ...values) {
            const reservation = await store.attempts.reserve(scopes, ...values)
            started.add(scopes)
            return reservation
          },
          async succeed(...values) {
            await until(async () => started.size >= startedBeforeSuccess)
            return store.attempts.succeed(...values)
          },
        },
      }))
    })
    after(() => service.stop())

    const newAddress = createAddresses()
    const login = (email: string, password = PASSWORD, headers = {}) =>
      service.call({ body: { email, password }, headers, from: newAddress() })
    const change = (
      email: string,
      currentPassword = PASSWORD,
      newPassword = NEW_PASSWORD,
      from = newAddress(),
    ) =>
      service.call({
        path: `${AUTH}/password`,
        body: { email, currentPassword, newPassword },
        from,
      })

    /** A user whose password is temporary for 72 hours. */
    async function newcomer() {
      const email = await service.newUser()
      const user = await service.store.users.findByEmail(email)
      assert.ok(user)
      const hash = await bcrypt.hash(PASSWORD, TEST_COST)
      const until = new Date(service.now().getTime() + 72 * HOUR_MS)
      await service.store.users.setPassword(user.id, hash, changeAt(service.now()), until)
      return { email, id: user.id, until }
    }

    test('a login gets 403 and nothing else, as often as it is tried', async () => {
      const { email, id } = await newcomer()
      const wrong = await login(email, 'wrong')
      assert.equal(wrong.text, REJECTED)
      const before = await service.store.users.findById(id)
      for (let i = 0; i < 3; i++) {
        const lines = await loggedBy(service, async () => {
          const answer = await login(email, PASSWORD, { 'Sec-Fetch-Site': 'same-origin' })
          assert.equal(answer.status, 403)
          assert.equal(answer.text, CHANGE_REQUIRED)
          assert.equal(answer.headers['set-cookie'], undefined)
          assert.equal(answer.headers['x-csrf-token'], undefined)
        })
        assert.deepEqual(
          lines.map(({ event, userId }) => [event, userId]),
          [['password.change_required', id]],
        )
      }
      assert.deepEqual(await service.store.users.findById(id), before)
      assert.equal(await service.store.sessions.findLastLogin(id), null)
      assert.equal(await service.store.sessions.countLive(id, service.now()), 0)
    })

    test('the 403 ends its attempt: it clears the failures of email and client, and counts none', async () => {
      const { email } = await newcomer()
      const from = newAddress()
      const attempt = (password: string) => service.login(email, password, from)
      for (let round = 0; round < 3; round++) {
        for (let i = 0; i < 4; i++) assert.equal((await attempt('wrong')).status, 401)
        assert.equal((await attempt(PASSWORD)).status, 403)
      }
    })

    test('it sets a new password once, after which logins get tokens', async () => {
      const { email, id } = await newcomer()
      assert.equal((await change(email)).status, 200)
      assert.equal((await service.store.users.findById(id))?.temporaryUntil, null)
      assert.equal((await login(email, NEW_PASSWORD)).status, 200)
      assert.equal((await login(email)).text, REJECTED)
      assert.equal((await change(email, PASSWORD, 'another new password')).text, REJECTED)
    })

    test('of 30 changes at once one wins, and the others are no failures', async () => {
      const { email, id } = await newcomer()
      const from = newAddress()
      const passwords = Array.from({ length: 30 }, (_, i) => `new password ${i}`)
      startedBeforeSuccess = started.size + passwords.length
      const answers = await Promise.all(
        passwords.map(async each => {
          const answer = await change(email, PASSWORD, each, from)
          // It may have been shed before it read its user.
          started.add(answer)
          return answer
        }),
      )
      const { 200: won, 401: lost = 0, 503: shed = 0, ...others } = countStatuses(answers)
      assert.deepEqual([won, lost + shed, others], [1, 29, {}])
      assert.equal((await service.store.users.findById(id))?.failedLoginAttempts, 0)
      const winner = passwords[answers.findIndex(({ status }) => status === 200)]
      assert.equal((await service.login(email, winner, from)).status, 200)
    })

    test('after its end it is rejected like a wrong one, with the same work', async () => {
      const { email, until } = await newcomer()
      service.advance(until.getTime() - service.now().getTime() - MINUTE_MS)
      assert.equal((await login(email)).status, 403)
      service.advance(MINUTE_MS)
      for (const attempt of [login, change]) {
        const lines = await loggedBy(service, async () => {
          const hashes = await countHashes(async () => {
            assert.equal((await attempt(email)).text, REJECTED)
          })
          assert.equal(hashes, 1)
        })
        assert.deepEqual(
          lines.map(({ event, reason }) => [event, reason]),
          [['login.failed', 'temporary-password-ended']],
        )
      }
      // A clock that is set back makes it valid again.
      service.advance(-2 * HOUR_MS)
      assert.equal((await login(email)).status, 403)
      assert.equal((await change(email)).status, 200)
    })

    test('the admin API generates one, and tells and records its end', async () => {
      const email = 'generated@example.com'
      const { status, json } = await service.admin('POST', '/users', {
        email,
        name: 'Kim',
        generate: true,
      })
      assert.equal(status, 201)
      const { password, temporaryUntil } = Object(json).data
      assert.match(password, GENERATED)
      // The answers are compared with the document.
      const shown = async () => Object((await service.admin('GET', `/users/${email}`)).json).data
      const { verdict, createdAt } = await shown()
      assert.deepEqual(verdict, { kind: 'must-change-password', until: temporaryUntil })
      service.advance(73 * HOUR_MS)
      assert.deepEqual((await shown()).verdict, {
        kind: 'temporary-password-ended',
        at: temporaryUntil,
      })
      service.advance(-73 * HOUR_MS)
      const hours = (Date.parse(temporaryUntil) - Date.parse(createdAt)) / HOUR_MS
      assert.ok(Math.abs(hours - 72) < 0.1)
      assert.equal((await login(email, password)).status, 403)

      const set = (body: object) => service.admin('PUT', `/users/${email}/password`, body)
      const short = Object((await set({ generate: true, valid: '1h' })).json).data
      assert.deepEqual(Object.keys(short), ['email', 'temporaryUntil', 'password'])
      const permanent = Object((await set({ generate: true, temporary: false })).json).data
      assert.deepEqual(Object.keys(permanent), ['email', 'password'])
      assert.equal((await login(email, permanent.password)).status, 200)
      const typed = await set({ password: PASSWORD, temporary: true })
      assert.deepEqual(Object.keys(Object(typed.json).data), ['email', 'temporaryUntil'])
      assert.equal((await change(email)).status, 200)

      for (const body of [
        { generate: true, password: PASSWORD },
        { generate: false },
        { generate: 'yes' },
        { password: PASSWORD, valid: '2h' },
        { generate: true, valid: '31d' },
        { generate: true, valid: '59m' },
      ]) {
        const refused = await set(body)
        assert.equal(Object(refused.json).error.code, 'INVALID_REQUEST', JSON.stringify(body))
      }
      const audit = await service.admin('GET', `/audit?target=${email}`)
      const text = JSON.stringify(audit.json)
      assert.ok(text.includes(temporaryUntil))
      for (const secret of [password, short.password, permanent.password]) {
        assert.ok(!text.includes(secret) && !service.logText().includes(secret))
      }
    })
  })
}
