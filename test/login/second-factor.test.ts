import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { decodeJwt } from 'jose'
import { wrapMethods } from '../../src/domain/operations.ts'
import { keyIdOf } from '../../src/keys/encryption.ts'
import { readKeyFile, replaceKeyFile } from '../../src/keys/key-file.ts'
import type { StoredKey } from '../../src/keys/key-set.ts'
import { digestOf } from '../../src/system/identifiers.ts'
import { byEmail, changeAt, NO_PROOFS } from '../storage/fixtures.ts'
import {
  createAuthenticator,
  newUserWithApp,
  SECOND_FACTOR,
  STEP_MS,
} from '../support/authenticator.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { eventsOf, inParallel } from '../support/own.ts'
import { until } from '../support/process.ts'
import {
  type Answer,
  countStatuses,
  createAddresses,
  LOGIN,
  loggedBy,
  PASSWORD,
  UNLIMITED,
} from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  cookieIn,
  DEVICE_COOKIE,
  type Login,
  MINUTE_MS,
  ownChange,
  ownSessions,
  REJECTED,
} from '../support/session-client.ts'

const RECOVERY_CODE = /^[\da-hjkmnp-tv-z]{4}(-[\da-hjkmnp-tv-z]{4}){5}$/
const MFA = ['pwd', 'otp', 'mfa']
const CHANGES = ['secret', 'newPasskey', 'remove', 'recoveryCodes']
const BROWSER = { 'Sec-Fetch-Site': 'same-origin' }
const amrOf = (accessToken: string) => decodeJwt(accessToken).amr

for (const engine of ENGINES_BY_RUN) {
  describe(`the second step on ${engine}`, async () => {
    /** Holds back what settles an attempt, until the test lets it go on. */
    let beforeSuccess = async () => {}
    let beforeFailure = async () => {}
    const service = await ownSessions(engine, UNLIMITED, null, store =>
      wrapMethods(store, (name, operation) => async (...values) => {
        if (name === 'attempts.succeed') await beforeSuccess()
        if (name === 'attempts.fail') await beforeFailure()
        return operation(...values)
      }),
    )
    // Codes of the same step stay the same.
    service.stopClock({ after })
    const newAddress = createAddresses()
    const login = (email: string, otp?: unknown, headers = {}, password = PASSWORD) =>
      service.call({ body: { email, password, otp }, headers, from: newAddress() })
    const change = (email: string, body: object, headers = {}) =>
      service.call({
        path: SECOND_FACTOR,
        body: { email, password: PASSWORD, ...body },
        from: newAddress(),
        headers,
      })
    const newUser = (email: string | null = null) => newUserWithApp(service, newAddress, email)
    const userOf = async (email: string) => {
      const user = await service.store.users.findByEmail(email)
      assert.ok(user)
      return user
    }
    const reasonsOf = (lines: Record<string, unknown>[]) => lines.map(({ reason }) => reason)

    test('set up, it is demanded, and the session and its tokens say so', async () => {
      const email = await service.newUser()
      const app = createAuthenticator(service.now)
      const before = await service.programLogin(email)
      assert.deepEqual(amrOf(before.accessToken), ['pwd'])
      const lines = await loggedBy(service, async () => {
        const answer = await change(email, { secret: app.secret, newOtp: app.code() })
        const { data } = answer.json
        assert.deepEqual(Object.keys(data), [
          ...['user', 'accessToken', 'refreshToken', 'expiresIn', 'recoveryCodes'],
        ])
        assert.deepEqual(amrOf(data.accessToken), MFA)
        assert.equal(new Set(data.recoveryCodes).size, 10)
        for (const code of data.recoveryCodes ?? []) assert.match(code, RECOVERY_CODE)
      })
      assert.deepEqual(eventsOf(lines), ['login.succeeded', 'second_factor.set', 'session.ended'])
      assert.equal(lines.at(-1)?.reason, 'second-factor')
      assert.equal((await service.refresh(before.refreshToken)).status, 401)

      for (const otp of [undefined, '', ' ', app.wrongCode(), app.code()]) {
        assert.equal((await login(email, otp)).text, REJECTED, String(otp))
      }
      service.advance(STEP_MS)
      const code = app.code()
      const answer = await login(email, ` ${code.slice(0, 3)} ${code.slice(3)} `)
      const { accessToken, refreshToken } = answer.json.data
      const { data } = (await service.get('/session', bearer(accessToken))).json
      assert.deepEqual(data.session.amr, MFA)
      assert.deepEqual(
        data.factors.map(({ kind, lastUsedAt }) => [kind, lastUsedAt !== null]),
        [['totp', true]],
      )
      assert.equal(data.recoveryCodesLeft, 10)
      assert.equal(data.session.lastLogin?.guessesSince, 1)
      const refreshed = (await service.refresh(refreshToken)).json.data
      assert.deepEqual(amrOf(refreshed.accessToken), MFA)
    })

    test('a change forgets all devices but the one that comes along', async () => {
      const email = await service.newUser()
      const [first, second] = [await service.browserLogin(email), await service.browserLogin(email)]
      const { id } = await userOf(email)
      const devices = () => service.store.devices.list(id, service.now())
      assert.equal((await devices()).length, 2)
      const { secret, code } = createAuthenticator(service.now)
      const headers = { ...BROWSER, ...cookie(first.device, DEVICE_COOKIE) }
      assert.equal((await change(email, { secret, newOtp: code() }, headers)).status, 200)
      const stillKnown = await service.store.devices.find(digestOf(first.device), service.now())
      assert.deepEqual(
        (await devices()).map(device => device.id),
        [stillKnown?.id],
      )
      assert.equal(await service.store.devices.find(digestOf(second.device), service.now()), null)
    })

    test('every refusal is the 401 of a wrong password; the log has the reason', async () => {
      const { email, app, recoveryCodes } = await newUser()
      const [recoveryCode = ''] = recoveryCodes
      const used = app.code()
      assert.equal((await login(email, recoveryCode)).status, 200)
      assert.equal((await login(email, used)).status, 200)
      const refusals: [otp: string | undefined, reason: string][] = [
        [undefined, 'code-missing'],
        [app.wrongCode(), 'code-wrong'],
        ['no code', 'code-wrong'],
        [used, 'code-used'],
        [app.code(-1), 'code-used'],
        [app.code(2), 'code-early'],
        [app.code(10), 'code-early'],
        [app.code(-2), 'code-late'],
        [app.code(-10), 'code-late'],
        [app.code(11), 'code-wrong'],
        [app.code(-11), 'code-wrong'],
        [recoveryCode, 'code-used'],
        [recoveryCode.slice(1), 'code-wrong'],
      ]
      const lines = await loggedBy(service, async () => {
        for (const [otp] of refusals) {
          const answer = await login(email, otp)
          assert.deepEqual([answer.status, answer.text], [401, REJECTED])
        }
      })
      assert.deepEqual(
        reasonsOf(lines.filter(({ event }) => event === 'login.failed')),
        refusals.map(([, reason]) => reason),
      )
      const seconds = lines.flatMap(line => ('seconds' in line ? [line.seconds] : []))
      assert.deepEqual(seconds, [60, 300, 60, 300])
      assert.equal((await userOf(email)).codeOffsetSeconds, -300)
      // The codes before it are used up by the later one.
      assert.equal((await login(email, app.code(1))).status, 200)
      assert.equal((await userOf(email)).codeOffsetSeconds, null)
    })

    test('a recovery code lets in once, however it is typed', async () => {
      const { email, app, recoveryCodes } = await newUser()
      const [first = '', second = ''] = recoveryCodes
      const typed = first
        .replaceAll('-', ' ')
        .toUpperCase()
        .replaceAll('0', 'O')
        .replaceAll('1', 'I')
      const lines = await loggedBy(service, async () => {
        const { accessToken } = (await login(email, typed)).json.data
        assert.deepEqual(amrOf(accessToken), MFA)
        const { data } = (await service.get('/session', bearer(accessToken))).json
        assert.equal(data.recoveryCodesLeft, 9)
      })
      assert.deepEqual(eventsOf(lines), ['login.succeeded', 'recovery_code.used'])
      assert.equal((await login(email, first)).text, REJECTED)

      const made = await change(email, { otp: second, recoveryCodes: true })
      const [fresh = '', ...others] = made.json.data.recoveryCodes ?? []
      assert.equal(others.length, 9)
      for (const old of [second, recoveryCodes[2]]) {
        assert.equal((await login(email, old)).text, REJECTED)
      }
      assert.equal((await login(email, fresh)).status, 200)
      assert.equal((await login(email, app.code())).status, 200)
    })

    test('replaced, the old app and the old recovery codes prove nothing', async () => {
      const { email, app, recoveryCodes } = await newUser()
      const next = createAuthenticator(service.now)
      const wanted = { secret: next.secret, newOtp: next.code() }
      assert.equal((await change(email, wanted)).text, REJECTED)
      assert.equal((await change(email, { ...wanted, otp: app.code() })).status, 200)
      service.advance(STEP_MS)
      for (const otp of [app.code(), recoveryCodes[0]]) {
        assert.equal((await login(email, otp)).text, REJECTED)
      }
      assert.equal((await login(email, next.code())).status, 200)
    })

    test('removed, the password alone is enough, and no recovery code is left', async () => {
      const { email, app } = await newUser()
      assert.equal((await change(email, { secret: null })).text, REJECTED)
      const lines = await loggedBy(service, async () => {
        assert.equal((await change(email, { secret: null, otp: app.code() })).status, 200)
      })
      assert.ok(eventsOf(lines).includes('second_factor.removed'))
      const { accessToken } = (await login(email)).json.data
      assert.deepEqual(amrOf(accessToken), ['pwd'])
      const { data } = (await service.get('/session', bearer(accessToken))).json
      assert.deepEqual([data.factors, data.recoveryCodesLeft], [[], 0])
      // What is sent beside the password of such an account is ignored.
      assert.equal((await login(email, 'anything')).status, 200)
    })

    test('bad input names its field, and is told only after password and code were right', async () => {
      const { email, app } = await newUser()
      const { secret } = createAuthenticator(service.now)
      const other = createAuthenticator(service.now)
      const without = await service.newUser()
      const cases: [email: string, body: object, fields: string[], reason?: string][] = [
        [email, {}, CHANGES],
        [email, { secret, recoveryCodes: true }, CHANGES],
        [email, { secret: 5, newOtp: '1' }, ['secret']],
        [email, { secret, newOtp: 5 }, ['newOtp']],
        [email, { secret }, ['newOtp']],
        [email, { secret, newOtp: ' ' }, ['newOtp']],
        [email, { recoveryCodes: false }, ['recoveryCodes']],
        [email, { secret: null, otp: 5 }, ['otp']],
        [
          email,
          { secret: null, newPassword: 'short', otp: app.code() },
          ['newPassword'],
          'too_short',
        ],
        [email, { secret: 'AAAA', newOtp: '111111', otp: app.code() }, ['secret'], 'malformed'],
        [email, { secret: `${secret}1`, newOtp: '1', otp: app.code() }, ['secret'], 'malformed'],
        [email, { secret: 'A'.repeat(104), newOtp: '1', otp: app.code() }, ['secret'], 'malformed'],
        [email, { secret, newOtp: other.wrongCode(), otp: app.code() }, ['newOtp'], 'wrong_code'],
        [without, { secret: null }, ['secret'], 'no_second_factor'],
        [without, { recoveryCodes: true }, ['recoveryCodes'], 'no_second_factor'],
      ]
      for (const [user, body, fields, reason] of cases) {
        const { status, json } = await change(user, body)
        const { error } = json
        const what = JSON.stringify(body)
        assert.deepEqual([status, error.code], [400, 'VALIDATION_ERROR'], what)
        assert.deepEqual([error.fields, error.reason], [fields, reason], what)
      }
      for (const body of [
        { secret: 'AAAA', newOtp: '1' },
        { secret, newOtp: other.wrongCode() },
      ]) {
        assert.equal((await change(email, { ...body, otp: app.wrongCode() })).text, REJECTED)
        assert.equal((await change(email, { ...body, password: 'wrong' })).text, REJECTED)
      }
      // None of these answers has used the code up.
      assert.equal((await login(email, app.code())).status, 200)
      const { error } = (await login(email, 5)).json
      assert.deepEqual([error.code, error.fields], ['VALIDATION_ERROR', ['otp']])
    })

    test('a change of the password needs it too, and ends the guesses', async () => {
      const { email, app } = await newUser()
      const newPassword = 'seven green boats at noon'
      const set = (otp: string) =>
        service.call({
          path: `${AUTH}/password`,
          body: { email, currentPassword: PASSWORD, newPassword, otp },
          from: newAddress(),
        })
      assert.equal((await set(app.wrongCode())).text, REJECTED)
      assert.equal((await userOf(email)).failedSecondSteps, 1)
      assert.equal((await set(app.code())).status, 200)
      assert.equal((await userOf(email)).failedSecondSteps, 0)
      service.advance(STEP_MS)
      assert.equal((await login(email, app.code(), {}, newPassword)).status, 200)
    })

    test('of 20 parallel logins with one code exactly one succeeds; with one recovery code too', async () => {
      const { email, app, recoveryCodes } = await newUser()
      for (const otp of [app.code(), recoveryCodes[0]]) {
        const before = (await userOf(email)).failedLoginAttempts
        let waiting = 0
        beforeSuccess = async () => {
          waiting++
          await until(async () => waiting === 20)
        }
        const answers = await inParallel(20, () => login(email, otp))
        beforeSuccess = async () => {}
        assert.deepEqual(countStatuses(answers), { 200: 1, 401: 19 })
        assert.equal(before, 0)
        // Settled as failures, those after the success at least.
        assert.ok((await userOf(email)).failedLoginAttempts > 0)
        await byEmail(service.store).unlock(email, changeAt(service.now()))
      }
    })

    test('a login that began before the set-up does not succeed without it', async () => {
      const email = await service.newUser()
      const app = createAuthenticator(service.now)
      let isHeld = false
      let isSetUp = false
      beforeSuccess = async () => {
        if (isHeld) return
        isHeld = true
        await until(async () => isSetUp)
      }
      const early = login(email)
      await until(async () => isHeld)
      const answer = await change(email, { secret: app.secret, newOtp: app.code() })
      assert.equal(answer.status, 200)
      isSetUp = true
      assert.equal((await early).text, REJECTED)
      beforeSuccess = async () => {}
    })

    test('two first set-ups at once leave one factor', async () => {
      const email = await service.newUser()
      const apps = [createAuthenticator(service.now), createAuthenticator(service.now)]
      let waiting = 0
      beforeSuccess = async () => {
        waiting++
        await until(async () => waiting === 2)
      }
      const answers = await Promise.all(
        apps.map(app => change(email, { secret: app.secret, newOtp: app.code() })),
      )
      beforeSuccess = async () => {}
      assert.deepEqual(countStatuses(answers), { 200: 1, 401: 1 })
      const { factors, recoveryCodesLeft } = await service.store.secondFactors.list(
        (await userOf(email)).id,
      )
      assert.deepEqual([factors.length, recoveryCodesLeft], [1, 10])
    })

    test('guesses: from the tenth on only known devices are let in, from the hundredth on none', async () => {
      const { email, app } = await newUser()
      const browser = await login(email, app.code(), BROWSER)
      const device = cookie(cookieIn(browser, DEVICE_COOKIE), DEVICE_COOKIE)
      const guess = async (count: number, headers = {}) => {
        for (let i = 0; i < count; i++) {
          // A known device has five failures in 15 minutes, whatever the budgets are.
          if (i % 5 === 0) service.advance(15 * MINUTE_MS)
          assert.equal((await login(email, app.wrongCode(i), headers)).text, REJECTED)
        }
      }
      const next = () => {
        service.advance(STEP_MS)
        return app.code()
      }
      const lines = await loggedBy(service, () => guess(15))
      const alarms = lines.filter(({ event }) => event === 'account.password_known')
      assert.deepEqual(
        alarms.map(({ level, guesses }) => [level, guesses]),
        [3, 10].map(guesses => ['error', guesses]),
      )
      // Those of unknown devices do not count further, and a right code is none.
      assert.equal((await userOf(email)).failedSecondSteps, 10)
      assert.equal((await login(email, next())).text, REJECTED)
      const known = await login(email, next(), { ...device, ...BROWSER })
      assert.equal(known.status, 200)
      const { session } = (await service.get('/session', bearer(known.json.data.accessToken))).json
        .data
      assert.equal(session.lastLogin?.guessesSince, 10)
      assert.equal((await userOf(email)).failedSecondSteps, 10)

      await guess(95, device)
      assert.equal((await userOf(email)).failedSecondSteps, 100)
      service.advance(15 * MINUTE_MS)
      assert.equal((await login(email, next(), device)).text, REJECTED)
      await byEmail(service.store).unlock(email, changeAt(service.now()))
      assert.equal((await login(email, app.code())).status, 200)
    })

    test('a success below ten guesses ends them; a missing or used code is none', async () => {
      const { email, app } = await newUser()
      const used = app.code()
      assert.equal((await login(email, used)).status, 200)
      for (let i = 0; i < 12; i++) await login(email, i % 2 ? undefined : used)
      assert.equal((await userOf(email)).failedSecondSteps, 0)
      for (let i = 0; i < 9; i++) await login(email, app.wrongCode(i))
      service.advance(STEP_MS)
      assert.equal((await login(email, app.code())).status, 200)
      assert.equal((await userOf(email)).failedSecondSteps, 0)
      // A wrong password with a wrong code is none either.
      await login(email, app.wrongCode(), {}, 'wrong')
      assert.equal((await userOf(email)).failedSecondSteps, 0)
    })

    test('a guess at a user that is deleted meanwhile raises no alarm', async () => {
      const { email, app } = await newUser()
      beforeFailure = async () => void (await byEmail(service.store).delete(email, changeAt()))
      const lines = await loggedBy(service, async () => {
        assert.equal((await login(email, app.wrongCode())).text, REJECTED)
      })
      beforeFailure = async () => {}
      assert.deepEqual(eventsOf(lines), ['login.failed'])
    })

    test('a code that was used while the clock was far ahead does not keep its user out', async () => {
      const { email, app } = await newUser()
      const yearMs = 365 * 24 * 60 * MINUTE_MS
      service.advance(yearMs)
      assert.equal((await login(email, app.code())).status, 200)
      service.advance(-yearMs)
      // Each code is still good once.
      const answers = await inParallel(5, () => login(email, app.code()))
      assert.deepEqual(countStatuses(answers), { 200: 1, 401: 4 })
      assert.equal((await login(email, app.code())).text, REJECTED)
      service.advance(STEP_MS)
      assert.equal((await login(email, app.code())).status, 200)
    })

    test('of 40 parallel codes at most ten are of use', async () => {
      const { email, app } = await newUser()
      // Nine guesses settle before the right code does: the tenth is the last that may be right.
      let settled = 0
      let isHeld = false
      beforeSuccess = async () => {
        isHeld = true
        await until(async () => settled >= 10)
      }
      const right = login(email, app.code())
      await until(async () => isHeld)
      await inParallel(10, async index => {
        await login(email, app.wrongCode(index))
        settled++
      })
      assert.equal((await right).text, REJECTED)
      beforeSuccess = async () => {}
    })

    test('what is stored: no secret and no code, and a row of another user does not decrypt', async () => {
      const [one, other] = [await newUser(), await newUser()]
      const [id, otherId] = [(await userOf(one.email)).id, (await userOf(other.email)).id]
      const { secondFactors } = service.store
      const mine = await secondFactors.findProofs(id, NO_PROOFS)
      assert.ok(mine.totp && !mine.totp.secret.includes(one.app.secret))
      await service.database.rows(
        `update second_factors set secret = '${mine.totp.secret}' where user_id = '${otherId}'`,
      )
      const lines = await loggedBy(service, async () => {
        assert.equal((await login(other.email, one.app.code())).text, REJECTED)
      })
      assert.deepEqual(reasonsOf(lines), ['factor-unreadable'])
      assert.equal((await login(one.email, one.app.code())).status, 200)
    })
  })

  test(`a successful login encrypts the secret with the newest key of the file, so that an older one can go, on ${engine}`, async () => {
    const service = await ownSessions(engine, UNLIMITED)
    const newAddress = createAddresses()
    const path = join(service.dataDir, 'signing-keys.json')
    const { keys } = await readKeyFile(path)
    const old = keys.find(({ use }) => use === 'enc')
    assert.ok(old)
    let reloads = 0
    const replaceKeys = async (changed: StoredKey[]) => {
      await replaceKeyFile(path, { keys: changed })
      reloads++
      await until(async () => service.logText().split('"keys.reloaded"').length - 1 === reloads)
    }
    const [owner, other] = [
      await newUserWithApp(service, newAddress),
      await newUserWithApp(service, newAddress),
    ]
    const login = async (otp: string, { email } = owner) => {
      const answer = await service.call({ body: { email, password: PASSWORD, otp } })
      return answer.status
    }
    const keyOfOwner = async () => {
      const user = await service.store.users.findByEmail(owner.email)
      const { totp } = await service.store.secondFactors.findProofs(user?.id ?? '', NO_PROOFS)
      return keyIdOf(totp?.secret ?? '')
    }
    const newer = { ...old, kid: 'newer', k: randomBytes(32).toString('base64url') }
    const nbf = Math.floor(service.now().getTime() / 1000)
    await replaceKeys([...keys, { ...newer, nbf }])
    for (const otp of [owner.app.wrongCode(), owner.recoveryCodes[0] ?? '']) {
      await login(otp)
      assert.equal(await keyOfOwner(), old.kid)
    }
    assert.equal(await login(owner.app.code()), 200)
    assert.equal(await keyOfOwner(), 'newer')

    await replaceKeys([...keys.filter(key => key !== old), { ...newer, nbf }])
    service.advance(STEP_MS)
    assert.equal(await login(owner.app.code()), 200)
    const lines = await loggedBy(service, async () => {
      assert.equal(await login(other.app.code(), other), 401)
    })
    assert.equal(lines[0]?.reason, 'factor-unreadable')
    assert.equal(await login(other.recoveryCodes[0] ?? '', other), 200)
  })

  describe(`a demanded second factor on ${engine}`, async () => {
    const newAddress = createAddresses()
    const env = { ...UNLIMITED, SECOND_FACTOR_ROLES: 'editor' }
    const service = await ownSessions(engine, env, newAddress)
    service.stopClock({ after })
    const post = (path: string, body: object) => service.call({ path, body, from: newAddress() })
    async function newEditor(temporary = false) {
      const email = await service.newUser()
      const { store, now } = service
      const user = await store.users.findByEmail(email)
      assert.ok(user)
      const { id, passwordHash } = user
      const end = temporary ? new Date(now().getTime() + 3_600_000) : null
      await store.users.setPassword(id, passwordHash, changeAt(now()), end)
      return {
        email,
        id,
        toEditor: () => store.users.set(id, { role: 'editor' }, changeAt(now())),
      }
    }
    const codeOf = ({ json }: { json: { error: { code: string } } }) => json.error.code

    test('a right password without one opens no session, and only sets one up', async () => {
      const { email, toEditor } = await newEditor()
      await toEditor()
      const app = createAuthenticator(service.now)
      const wanted = { secret: app.secret, newOtp: app.code() }
      const credentials = { email, password: PASSWORD }
      assert.equal((await post(LOGIN, { email, password: 'wrong' })).text, REJECTED)
      assert.equal(codeOf(await post(LOGIN, credentials)), 'SECOND_FACTOR_REQUIRED')
      const newPassword = 'seven green boats at noon'
      const changed = { email, currentPassword: PASSWORD, newPassword }
      assert.equal(codeOf(await post(`${AUTH}/password`, changed)), 'SECOND_FACTOR_REQUIRED')
      assert.equal((await post(SECOND_FACTOR, { ...credentials, ...wanted })).status, 200)
      service.advance(STEP_MS)
      assert.equal((await post(LOGIN, { ...credentials, otp: app.code() })).status, 200)
      service.advance(STEP_MS)
      const removal = await post(SECOND_FACTOR, { ...credentials, secret: null, otp: app.code() })
      assert.deepEqual(
        [removal.status, removal.json.error.fields, removal.json.error.reason],
        [400, ['secret'], 'demanded'],
      )
    })

    test('together with a temporary password, both are replaced at once or nothing is', async () => {
      const { email, toEditor } = await newEditor(true)
      await toEditor()
      const app = createAuthenticator(service.now)
      const credentials = { email, password: PASSWORD }
      const wanted = { ...credentials, secret: app.secret, newOtp: app.code() }
      const newPassword = 'seven green boats at noon'
      assert.equal(codeOf(await post(LOGIN, credentials)), 'PASSWORD_CHANGE_REQUIRED')
      assert.equal(codeOf(await post(SECOND_FACTOR, wanted)), 'PASSWORD_CHANGE_REQUIRED')
      const changed = { email, currentPassword: PASSWORD, newPassword }
      assert.equal(codeOf(await post(`${AUTH}/password`, changed)), 'SECOND_FACTOR_REQUIRED')
      assert.equal((await post(SECOND_FACTOR, { ...wanted, newPassword })).status, 200)
      service.advance(STEP_MS)
      const login = { email, password: newPassword, otp: app.code() }
      assert.equal((await post(LOGIN, login)).status, 200)
    })

    test('ends the sessions of users that got the role without one, by every credential', async () => {
      const uses: [what: string, use: (opened: Login) => Promise<Answer>][] = [
        ['cookie', opened => service.get('/session', ownChange(opened))],
        ['bearer', opened => service.get('/sessions', bearer(opened.accessToken))],
        ['verify', opened => service.get('/verify', bearer(opened.accessToken))],
        ['refresh', opened => service.refresh(opened.refreshToken)],
        [
          'refresh by cookie',
          opened => service.call({ path: `${AUTH}/refresh`, headers: ownChange(opened) }),
        ],
      ]
      for (const [what, use] of uses) {
        const { email, toEditor } = await newEditor()
        const opened = await service.browserLogin(email)
        await toEditor()
        const lines = await loggedBy(service, async () => {
          assert.equal((await use(opened)).status, 401, what)
        })
        assert.deepEqual(
          lines.map(({ event, reason }) => [event, reason]).toSorted(),
          [
            ['session.ended', 'second-factor'],
            ['session.refused', 'no-second-factor'],
          ],
          what,
        )
        const found = await service.store.sessions.findLive(opened.sessionId, service.now())
        assert.ok(found.kind === 'invalid' && found.reason === 'session-ended')
        const [ended] = await service.store.sessions.listEnded({ endedAt: new Date(0) }, 100)
        assert.ok(ended)
      }
    })
  })
}
