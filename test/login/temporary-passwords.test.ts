import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { wrapMethods } from '../../src/domain/operations.ts'
import { changeAt } from '../storage/fixtures.ts'
import { startAdminService } from '../support/admin-service.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { inParallel, own } from '../support/own.ts'
import { until } from '../support/process.ts'
import { countStatuses, createAddresses, loggedBy, PASSWORD } from '../support/service.ts'
import { AUTH, MINUTE_MS } from '../support/session-client.ts'

const HOUR_MS = 60 * MINUTE_MS
const NEW_PASSWORD = 'seven green boats at noon'
const GENERATED = /^[\da-hjkmnp-tv-z]{4}(-[\da-hjkmnp-tv-z]{4}){4}$/
const CHANGE_REQUIRED =
  '{"success":false,"error":{"code":"PASSWORD_CHANGE_REQUIRED","message":"This password is temporary. Please set a new one."}}'
const REJECTED =
  '{"success":false,"error":{"code":"INVALID_CREDENTIALS","message":"Invalid email or password"}}'

for (const engine of ENGINES_BY_RUN) {
  describe(`temporary passwords on ${engine}`, async () => {
    /** The attempts that have read their user, and how many of them must do so before one succeeds. */
    const started = new Set<unknown>()
    let startedBeforeSuccess = 0
    const service = await own(
      startAdminService(engine, {}, store =>
        wrapMethods(store, (name, operation) => async (...values) => {
          if (name === 'attempts.succeed') {
            await until(async () => started.size >= startedBeforeSuccess)
          }
          const result = await operation(...values)
          if (name === 'attempts.reserve') started.add(values[0])
          return result
        }),
      ),
    )
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
      const { id, passwordHash } = user
      const until = new Date(service.now().getTime() + 72 * HOUR_MS)
      await service.store.users.setPassword(id, passwordHash, changeAt(service.now()), until)
      return { email, id, until }
    }

    test('a login gets 403 and nothing else, as often as it is tried', async () => {
      const { email, id } = await newcomer()
      assert.equal((await login(email, 'wrong')).text, REJECTED)
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
      startedBeforeSuccess = started.size + 30
      const answers = await inParallel(30, async i => {
        const answer = await change(email, PASSWORD, `new password ${i}`, from)
        // It may have been shed before it read its user.
        started.add(answer)
        return answer
      })
      const { 200: won, 401: lost = 0, 503: shed = 0, ...others } = countStatuses(answers)
      assert.deepEqual([won, lost + shed, others], [1, 29, {}])
      assert.equal((await service.store.users.findById(id))?.failedLoginAttempts, 0)
      const winner = answers.findIndex(({ status }) => status === 200)
      assert.equal((await service.login(email, `new password ${winner}`, from)).status, 200)
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
      const kim = { email, name: 'Kim', generate: true }
      const { status, json } = await service.admin('POST', '/users', kim)
      assert.equal(status, 201)
      const { password, temporaryUntil } = Object(json).data
      assert.match(password, GENERATED)
      // The answers are compared with the document.
      const shown = async () => Object((await service.admin('GET', `/users/${email}`)).json).data
      const { verdict, createdAt } = await shown()
      assert.deepEqual(verdict, { kind: 'must-change-password', until: temporaryUntil })
      service.advance(73 * HOUR_MS)
      const ended = { kind: 'temporary-password-ended', at: temporaryUntil }
      assert.deepEqual((await shown()).verdict, ended)
      service.advance(-73 * HOUR_MS)
      const hours = (Date.parse(temporaryUntil) - Date.parse(createdAt)) / HOUR_MS
      assert.ok(Math.abs(hours - 72) < 0.1)
      assert.equal((await login(email, password)).status, 403)

      const set = async (body: object): Promise<Record<string, string>> => {
        const answer = await service.admin('PUT', `/users/${email}/password`, body)
        return Object(answer.json).data ?? Object(answer.json).error
      }
      const short = await set({ generate: true, valid: '1h' })
      assert.deepEqual(Object.keys(short), ['email', 'temporaryUntil', 'password'])
      const permanent = await set({ generate: true, temporary: false })
      assert.deepEqual(Object.keys(permanent), ['email', 'password'])
      assert.equal((await login(email, permanent.password)).status, 200)
      const typed = await set({ password: PASSWORD, temporary: true })
      assert.deepEqual(Object.keys(typed), ['email', 'temporaryUntil'])
      assert.equal((await change(email)).status, 200)

      for (const body of [
        { generate: true, password: PASSWORD },
        { generate: false },
        { generate: 'yes' },
        { password: PASSWORD, valid: '2h' },
        { generate: true, valid: '31d' },
        { generate: true, valid: '59m' },
      ]) {
        assert.equal((await set(body)).code, 'INVALID_REQUEST', JSON.stringify(body))
      }
      const { text } = await service.admin('GET', `/audit?target=${email}`)
      assert.ok(text.includes(temporaryUntil))
      for (const secret of [password, short.password, permanent.password]) {
        assert.ok(!text.includes(secret) && !service.logText().includes(secret))
      }
    })
  })
}
