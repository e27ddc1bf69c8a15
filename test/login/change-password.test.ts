import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { wrapMethods } from '../../src/domain/operations.ts'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { startAdminService } from '../support/admin-service.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { eventsOf, inParallel, own } from '../support/own.ts'
import { until } from '../support/process.ts'
import {
  type Call,
  countStatuses,
  createAddresses,
  loggedBy,
  PASSWORD,
  TEST_COST,
} from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  cookieIn,
  DEVICE_COOKIE,
  MINUTE_MS,
  REJECTED,
  SESSION_COOKIE,
  startSessionService,
} from '../support/session-client.ts'

const HOUR_MS = 60 * MINUTE_MS
const NEW_PASSWORD = 'seven green boats at noon'
const BROWSER = { 'Sec-Fetch-Site': 'same-origin' }
const GENERATED = /^[\da-hjkmnp-tv-z]{4}(-[\da-hjkmnp-tv-z]{4}){4}$/
const CHANGE_REQUIRED =
  '{"success":false,"error":{"code":"PASSWORD_CHANGE_REQUIRED","message":"This password is temporary. Please set a new one."}}'

for (const engine of ENGINES_BY_RUN) {
  describe(`a change of the password on ${engine}`, async () => {
    /** The attempts that have read their user, and how many of them must do so before one succeeds. */
    const started = new Set<unknown>()
    let startedBeforeSuccess = 0
    const service = await own(
      startSessionService(engine, {}, null, store =>
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
    const change = (
      email: unknown,
      currentPassword: unknown = PASSWORD,
      newPassword: unknown = NEW_PASSWORD,
      call: Call = {},
    ) =>
      service.call({
        path: `${AUTH}/password`,
        body: { email, currentPassword, newPassword },
        from: newAddress(),
        ...call,
      })
    const login = (email: string, password = PASSWORD, headers = {}) =>
      service.call({ body: { email, password }, headers, from: newAddress() })
    const userOf = (email: string) => service.store.users.findByEmail(email)

    test('is answered and noted like a login, and from then on only the new password is right, with its NUL', async () => {
      // A hash as of an import, of another form and cost, is replaced by one of the configured cost.
      const imported = (await bcrypt.hash(PASSWORD, TEST_COST + 1)).replace('$2b$', '$2y$')
      const email = 'imported@example.com'
      const id = await service.addUser(email, { passwordHash: imported })
      const lines = await loggedBy(service, async () => {
        const answer = await change(email, PASSWORD, 'before \0 and after')
        assert.equal(answer.status, 200)
        const { data } = answer.json
        assert.deepEqual(Object.keys(data), ['user', 'accessToken', 'refreshToken', 'expiresIn'])
        assert.equal(answer.headers['set-cookie'], undefined)
        assert.equal((await service.refresh(data.refreshToken)).status, 200)
      })
      assert.deepEqual(
        lines.map(({ event, userId }) => [event, userId]),
        ['login.succeeded', 'password.changed', 'session.refreshed'].map(event => [event, id]),
      )
      assert.ok(await service.store.sessions.findLastLogin(id))
      assert.ok((await userOf(email))?.passwordHash.startsWith(`$2b$0${TEST_COST}$`))
      for (const old of [PASSWORD, 'before ', 'before \0 and more']) {
        assert.equal((await login(email, old)).text, REJECTED)
      }
      assert.equal((await login(email, 'before \0 and after')).status, 200)
    })

    test('ends all other sessions, and only these; without a device it forgets all of them', async () => {
      const email = await service.newUser()
      const { userId, ...browser } = await service.browserLogin(email)
      const tokens = [browser, (await login(email, PASSWORD)).json.data]
      const { refreshToken: foreign } = await service.programLogin(await service.newUser())
      const lines = await loggedBy(service, async () => {
        assert.equal((await change(email)).status, 200)
      })
      const reasons = lines.flatMap(({ event, reason }) =>
        event === 'session.ended' ? [reason] : [],
      )
      assert.deepEqual(reasons, ['password', 'password'])
      for (const { refreshToken, accessToken } of tokens) {
        assert.equal((await service.refresh(refreshToken)).status, 401)
        assert.equal((await service.get('/session', bearer(accessToken))).status, 401)
      }
      assert.equal((await service.refresh(foreign)).status, 200)
      assert.deepEqual(await service.store.devices.list(userId, service.now()), [])
    })

    test('gives a browser new cookies, and keeps only the device that came along', async () => {
      const email = await service.newUser()
      const [mine, theirs] = [await service.browserLogin(email), await service.browserLogin(email)]
      const headers = cookie(mine.device, DEVICE_COOKIE)
      const answer = await change(email, PASSWORD, NEW_PASSWORD, {
        headers: { ...BROWSER, ...headers },
      })
      assert.equal(answer.status, 200)
      assert.equal(cookieIn(answer, DEVICE_COOKIE), mine.device)
      const session = cookieIn(answer, SESSION_COOKIE)
      assert.equal((await service.get('/session', cookie(session))).status, 200)
      assert.equal((await service.get('/session', cookie(theirs.cookie))).status, 401)
      const devices = () => service.store.devices.list(mine.userId, service.now())
      const [kept, ...others] = await devices()
      assert.deepEqual(others, [])
      // The device of a program is kept too, although it gets no cookies.
      assert.equal((await change(email, NEW_PASSWORD, PASSWORD, { headers })).status, 200)
      assert.deepEqual(
        (await devices()).map(({ id }) => id),
        [kept?.id],
      )
    })

    test('is refused to pages of other sites', async () => {
      const headers = { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' }
      const answer = await change(await service.newUser(), PASSWORD, NEW_PASSWORD, { headers })
      assert.equal(answer.json.error.code, 'CSRF_FAILED')
    })

    const UNFIT: [what: string, newPassword: string, reason: string | undefined][] = [
      ['seven characters', 'seven77', 'too_short'],
      ['73 bytes', `${'ä'.repeat(36)}b`, 'too_long'],
      ['almost 16 KiB', 'x'.repeat(16_000), 'too_long'],
      ['the current password', PASSWORD, 'unchanged'],
      ['a common password', 'Baseball', 'too_common'],
      ['half a surrogate pair', 'half a pair \ud83d', undefined],
    ]
    for (const [what, newPassword, reason] of UNFIT) {
      test(`with ${what} is refused before anything is counted or hashed`, async () => {
        const email = await service.newUser()
        const before = await userOf(email)
        const hashes = await countHashes(async () => {
          for (const current of newPassword === PASSWORD ? [PASSWORD] : [PASSWORD, 'wrong']) {
            const { status, json } = await change(email, current, newPassword)
            assert.equal(status, 400)
            const { message, ...error } = json.error
            const fields = ['newPassword']
            assert.deepEqual(error, { code: 'VALIDATION_ERROR', fields, ...(reason && { reason }) })
            assert.match(message, /^The new password /)
          }
        })
        assert.equal(hashes, 0)
        assert.deepEqual(await userOf(email), before)
      })
    }

    for (const [what, newPassword] of [
      ['the name of the user', 'wilhelmina-1815'],
      ['the email of the user', 'Named.One 1815'],
      ['the name of the service', 'login service 1!'],
    ] as const) {
      test(`with ${what} is refused only after the current password was verified, as a login`, async () => {
        const email = `named.one@${what.replaceAll(' ', '-')}.example.com`
        const id = await service.addUser(email, { name: 'Wilhelmina Byron' })
        const before = await userOf(email)
        assert.equal((await change(email, 'wrong', newPassword)).text, REJECTED)
        const from = newAddress()
        const lines = await loggedBy(service, async () => {
          const { status, json } = await change(email, PASSWORD, newPassword, { from })
          assert.equal(status, 400)
          assert.deepEqual(json.error.fields, ['newPassword'])
          assert.equal(json.error.reason, 'personal')
        })
        assert.deepEqual(eventsOf(lines.filter(({ userId }) => userId === id)), [
          'password.refused',
        ])
        // Neither the hash has changed, nor is the failure still counted.
        assert.deepEqual(await userOf(email), before)
        const lastLogin = await service.store.sessions.findLastLogin(id)
        assert.deepEqual([lastLogin?.ip, lastLogin?.failuresSince], [from, 0])
      })
    }

    test('refuses a body of more than 16 KiB and one without its fields', async () => {
      const email = await service.newUser()
      assert.equal((await change(email, PASSWORD, 'x'.repeat(17_000))).status, 413)
      for (const [body, fields] of [
        [{ email, currentPassword: PASSWORD }, ['newPassword']],
        [{ email, currentPassword: '', newPassword: [] }, ['currentPassword', 'newPassword']],
        ['{', ['email', 'currentPassword', 'newPassword']],
      ] as const) {
        const headers = { 'Content-Type': 'application/json' }
        const { status, json } = await change('', '', '', { body, headers })
        assert.equal(status, 400)
        assert.deepEqual(json.error, {
          code: 'VALIDATION_ERROR',
          message: 'Email, current password and new password are required',
          fields,
        })
      }
    })

    test('rejects a wrong password, an unknown email and an inactive user as a login does', async () => {
      const email = await service.newUser()
      const inactive = await service.newUser()
      await byEmail(service.store).deactivate(inactive, changeAt(service.now()))
      for (const [given, current] of [
        [email, 'wrong'],
        [email, 'x'.repeat(100)],
        ['unknown@example.com', PASSWORD],
        [inactive, PASSWORD],
      ] as const) {
        const hashes = await countHashes(async () => {
          const { status, text } = await change(given, current)
          assert.deepEqual([status, text], [401, REJECTED])
        })
        // The new password is hashed only if the current one is right.
        assert.equal(hashes, 1)
      }
      assert.equal((await userOf(email))?.failedLoginAttempts, 2)
    })

    test('leaves no session of the old password, whatever logins and refreshes run beside it', async () => {
      for (let round = 0; round < 10; round++) {
        const email = await service.newUser()
        const { refreshToken } = (await login(email, PASSWORD)).json.data
        const [changed, logins, refreshed] = await Promise.all([
          change(email),
          Promise.all([login(email, PASSWORD), login(email, PASSWORD)]),
          service.refresh(refreshToken),
        ])
        assert.equal(changed.status, 200)
        const tokens = [...logins, refreshed].flatMap(({ status, json }) =>
          status === 200 ? [json.data.accessToken] : [],
        )
        for (const token of tokens) {
          assert.equal((await service.get('/session', bearer(token))).status, 401)
        }
        const { json } = await service.get('/sessions', bearer(changed.json.data.accessToken))
        assert.equal(json.data.sessions.length, 1)
      }
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

    test('with a temporary password a login gets 403 and nothing else, as often as it is tried', async () => {
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

    test('the 403 of a temporary password ends its attempt: it clears the failures of email and client, and counts none', async () => {
      const { email } = await newcomer()
      const from = newAddress()
      const attempt = (password: string) => service.login(email, password, from)
      for (let round = 0; round < 3; round++) {
        for (let i = 0; i < 4; i++) assert.equal((await attempt('wrong')).status, 401)
        assert.equal((await attempt(PASSWORD)).status, 403)
      }
    })

    test('sets a new password once in place of a temporary one, after which logins get tokens', async () => {
      const { email, id } = await newcomer()
      assert.equal((await change(email)).status, 200)
      assert.equal((await service.store.users.findById(id))?.temporaryUntil, null)
      assert.equal((await login(email, NEW_PASSWORD)).status, 200)
      assert.equal((await login(email)).text, REJECTED)
      assert.equal((await change(email, PASSWORD, 'another new password')).text, REJECTED)
    })

    test('of 30 changes of a temporary password at once one wins, and the others are no failures', async () => {
      const { email, id } = await newcomer()
      const from = newAddress()
      startedBeforeSuccess = started.size + 30
      const answers = await inParallel(30, async i => {
        const answer = await change(email, PASSWORD, `new password ${i}`, { from })
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

    test('after its end a temporary password is rejected like a wrong one, with the same work', async () => {
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

    test('no password or other secret is in the log, the database or the audit', async () => {
      await service.assertSecretsKept()
      const audit = JSON.stringify(await service.database.rows('select * from audit_events'))
      for (const password of [PASSWORD, NEW_PASSWORD]) {
        assert.ok(!service.logText().includes(password) && !audit.includes(password))
      }
    })
  })
  test(`the admin API generates a temporary password, and tells and records its end, on ${engine}`, async () => {
    const service = await own(startAdminService(engine))
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
    assert.equal((await service.login(email, password)).status, 403)

    const set = async (body: object): Promise<Record<string, string>> => {
      const answer = await service.admin('PUT', `/users/${email}/password`, body)
      return Object(answer.json).data ?? Object(answer.json).error
    }
    const short = await set({ generate: true, valid: '1h' })
    assert.deepEqual(Object.keys(short), ['email', 'temporaryUntil', 'password'])
    const permanent = await set({ generate: true, temporary: false })
    assert.deepEqual(Object.keys(permanent), ['email', 'password'])
    assert.equal((await service.login(email, permanent.password)).status, 200)
    const typed = await set({ password: PASSWORD, temporary: true })
    assert.deepEqual(Object.keys(typed), ['email', 'temporaryUntil'])
    const change = { email, currentPassword: PASSWORD, newPassword: NEW_PASSWORD }
    assert.equal((await service.call({ path: `${AUTH}/password`, body: change })).status, 200)

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
}
