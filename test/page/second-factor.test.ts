// Two-step login on the pages, as a browser without scripts uses it.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseSecret } from '../../src/login/totp.ts'
import de from '../../src/page/texts/de.json' with { type: 'json' }
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { changeAt } from '../storage/fixtures.ts'
import { createAuthenticator, newUserWithApp, STEP_MS } from '../support/authenticator.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { eventsOf, own } from '../support/own.ts'
import { readQrCode } from '../support/qr-code.ts'
import { createRawClient } from '../support/raw-connection.ts'
import {
  type Answer,
  createAddresses,
  loggedBy,
  PASSWORD,
  startTestService,
  type TestService,
  UNLIMITED,
} from '../support/service.ts'
import { cookieIn, ownSessions } from '../support/session-client.ts'
import {
  createVisitor,
  makeTemporary,
  noticeIn,
  refreshIn,
  textIn,
  unescaped,
} from '../support/visitor.ts'

const APP = 'https://app.example.com'
const SET_UP = '/login/second-factor'
const NEW_CODES = '/login/second-factor/recovery-codes'
const SECOND_STEP_COOKIE = '__Host-second-step'
const NEW_PASSWORD = 'seven green boats at noon'
const MARKUP = `"'><img src=x onerror=alert(1)>&amp;`

const isAccount = ({ text }: Answer) => text.includes('id="log-out"')
const secretIn = ({ text }: Answer) => /name="secret" value="([^"]*)"/.exec(text)?.[1] ?? ''
const codesIn = ({ text }: Answer) =>
  [...text.matchAll(/<li><code>(.*?)<\/code>/g)].map(([, code = '']) => code.replace(/<.*?>/g, ''))
/** Whether the login asks for a code: null if it does not. */
const detailsIn = ({ text }: Answer) => /<details id="two-steps"( open)?>/.exec(text)
/** What a page fills in, apart from the email and what is hidden. */
const filledIn = ({ text }: Answer) =>
  [...text.matchAll(/<input (?!type="hidden")[^>]*? name="([^"]+)"[^>]*? value="[^"]/g)].map(
    ([, name]) => name,
  )
const removalIn = ({ text }: Answer) =>
  /\/login\/second-factor\/[\da-f-]{36}\/remove/.exec(text)?.[0]

async function setRole({ store, now }: Pick<TestService, 'store' | 'now'>, email: string) {
  const { id = '' } = (await store.users.findByEmail(email)) ?? {}
  await store.users.set(id, { role: 'editor' }, changeAt(now()))
}

for (const engine of ENGINES_BY_RUN) {
  describe(`two-step login on the pages on ${engine}`, async () => {
    const env = { ...UNLIMITED, SECOND_FACTOR_ROLES: 'editor', RETURN_TO_ORIGINS: APP }
    const service = await ownSessions(engine, env)
    const newAddress = createAddresses()
    const newVisitor = () => createVisitor(service, newAddress())
    const appOf = (page: Answer) => {
      const secret = parseSecret(secretIn(page))
      assert.ok(secret)
      return createAuthenticator(service.now, secret)
    }

    /** A user with an app, logged in to the account. */
    async function loggedIn() {
      const { email, app, recoveryCodes } = await newUserWithApp(service, newAddress)
      const visitor = newVisitor()
      const page = await visitor.post('/login', { email, password: PASSWORD, otp: app.code() })
      assert.ok(isAccount(page), page.text)
      service.advance(STEP_MS)
      return { email, app, recoveryCodes, visitor, page }
    }

    test('it is set up from the account: the secret stays after a refusal, and recovery codes are shown once', async () => {
      const email = await service.newUser()
      const [visitor, other] = [newVisitor(), newVisitor()]
      await other.logIn(email)
      const off = await visitor.logIn(email)
      assert.equal(textIn(off, 'two-steps-off'), en.twoStepsOff)
      const form = await visitor.get(SET_UP)
      const secret = secretIn(form)
      assert.match(secret, /^[A-Z2-7]{32}$/)
      assert.equal(textIn(form, 'key')?.replaceAll(' ', ''), secret)
      const uri = `otpauth://totp/Login%20Service:${encodeURIComponent(email)}?secret=${secret}&issuer=Login%20Service`
      assert.equal(readQrCode(form.text).text, uri)
      assert.ok(unescaped(form.text).includes(`href="${uri}"`))
      assert.notEqual(secretIn(await visitor.get(SET_UP)), secret)

      const app = appOf(form)
      const fields = { email, password: PASSWORD, 'new-otp': app.code() }
      for (const [given, status, error] of [
        [{ 'new-otp': '' }, 400, en.newOtpInvalid],
        [{ 'new-otp': app.wrongCode() }, 400, en.newOtpWrong],
        [{ password: 'wrong' }, 401, en.currentPasswordWrong],
      ] as const) {
        const refused = await visitor.submit(form, SET_UP, { ...fields, ...given })
        assert.equal(refused.status, status)
        assert.equal(textIn(refused, 'new-otp-error') || noticeIn(refused), error)
        assert.equal(secretIn(refused), secret)
        assert.deepEqual(filledIn(refused), ['email'])
      }
      const lines = await loggedBy(service, async () => {
        const codes = await visitor.submit(form, SET_UP, fields)
        assert.equal(codes.status, 200)
        assert.equal(codes.headers['cache-control'], 'no-store')
        assert.equal(noticeIn(codes), en.turnedOn)
        assert.equal(new Set(codesIn(codes)).size, 10)
        assert.match(codes.text, /login\.example\.com · made on \w+ \d+, \d{4}</)
        // Another language would be another page, without the codes.
        assert.doesNotMatch(codes.text, /hreflang/)
        for (const code of codesIn(codes)) assert.ok(!service.logText().includes(code))
      })
      assert.ok(!service.logText().includes(secret))
      assert.deepEqual(eventsOf(lines).slice(0, 2), ['login.succeeded', 'second_factor.set'])
      const on = await visitor.get('/login')
      assert.match(textIn(on, 'two-steps-since') ?? '', /^Turned on /)
      assert.match(on.text, /10 of 10 left/)
      assert.ok(!isAccount(await other.get('/login')))
    })

    test('the field opens after a refusal, with one text for everything that was wrong', async () => {
      const { email, app } = await newUserWithApp(service, newAddress)
      const visitor = newVisitor()
      const form = await visitor.get('/login')
      assert.equal(detailsIn(form)?.[1], undefined)
      const pages = new Set<string>()
      const right = { email, password: PASSWORD, otp: app.code() }
      for (const wrong of [
        { otp: '' },
        { otp: app.wrongCode() },
        { password: 'not the password' },
        { email: 'absent@example.com' },
      ]) {
        const refused = await visitor.submit(form, '/login', { ...right, ...wrong })
        assert.equal(refused.status, 401)
        assert.equal(noticeIn(refused), en.invalidProof)
        assert.equal(detailsIn(refused)?.[1], ' open')
        assert.match(textIn(refused, 'otp-hint') ?? '', new RegExp(en.otpUnused))
        assert.deepEqual(filledIn(refused), ['email'])
        assert.equal(refused.headers['set-cookie'], undefined)
        pages.add(refused.text.replaceAll(wrong.email ?? email, ''))
      }
      assert.equal(pages.size, 1)
      assert.ok(isAccount(await visitor.submit(form, '/login', right)))
    })

    test('a success of an account with a second step opens the field in this browser, and nothing else does', async () => {
      const { email, app, recoveryCodes } = await newUserWithApp(service, newAddress)
      const single = newVisitor()
      await single.logIn(await service.newUser())
      await single.logIn(email)
      assert.ok(!single.cookies.has(SECOND_STEP_COOKIE))
      const visitor = newVisitor()
      const fields = { email, password: PASSWORD, otp: recoveryCodes[0]?.toUpperCase() }
      const headers = { 'Sec-Fetch-Site': 'same-origin' }
      const body = { email, password: PASSWORD, otp: app.code() }
      const answer = await service.call({ headers, body, from: newAddress() })
      const [line, device] = [SECOND_STEP_COOKIE, '__Host-device'].map(name =>
        answer.headers['set-cookie']?.find(cookie => cookie.startsWith(name)),
      )
      const [, age] = /Max-Age=(\d+)/.exec(device ?? '') ?? []
      const expected = `Max-Age=${age}; Path=/; Secure; HttpOnly; SameSite=Strict`
      assert.equal(line, `${SECOND_STEP_COOKIE}=1; ${expected}`)
      // A program gets none.
      service.advance(STEP_MS)
      const program = await service.call({ body: { ...body, otp: app.code() }, from: newAddress() })
      assert.equal(cookieIn(program, SECOND_STEP_COOKIE), '')

      assert.ok(isAccount(await visitor.post('/login', fields)))
      await visitor.post('/login/logout', {})
      visitor.cookies.delete('__Host-session')
      for (const page of [await visitor.get('/login'), await visitor.logIn(email)]) {
        assert.equal(detailsIn(page)?.[1], ' open')
        assert.doesNotMatch(page.text, new RegExp(en.otpUnused))
      }
      assert.equal(visitor.cookies.get(SECOND_STEP_COOKIE), '1')
    })

    test('the app is replaced with a code of the old one, whose codes and recovery codes end', async () => {
      const { email, app, recoveryCodes, visitor } = await loggedIn()
      const form = await visitor.get(SET_UP)
      const next = appOf(form)
      const fields = { email, password: PASSWORD, otp: app.code(), 'new-otp': next.code() }
      const hashes = await countHashes(async () => {
        const refused = await visitor.submit(form, SET_UP, { ...fields, otp: ' ' })
        assert.deepEqual([refused.status, textIn(refused, 'otp-error')], [400, en.otpMissing])
        assert.match(refused.text, /<label for="otp">Code from your old app</)
      })
      assert.equal(hashes, 0)
      const wrong = await visitor.submit(form, SET_UP, { ...fields, otp: app.wrongCode() })
      assert.equal(noticeIn(wrong), en.currentProofWrong)
      assert.equal(secretIn(wrong), secretIn(form))
      const codes = await visitor.submit(wrong, SET_UP, fields)
      assert.equal(noticeIn(codes), en.appReplaced)
      assert.equal(codesIn(codes).length, 10)
      service.advance(STEP_MS)
      for (const otp of [app.code(), recoveryCodes[0] ?? '']) {
        const refused = await newVisitor().post('/login', { email, password: PASSWORD, otp })
        assert.equal(refused.status, 401)
      }
      const otp = next.code()
      assert.ok(isAccount(await newVisitor().post('/login', { email, password: PASSWORD, otp })))
    })

    test('new recovery codes take the place of the earlier ones; few are a warning', async () => {
      const { email, app, recoveryCodes, visitor } = await loggedIn()
      for (const otp of recoveryCodes.slice(0, 8)) {
        await newVisitor().post('/login', { email, password: PASSWORD, otp })
      }
      const few = await visitor.get('/login')
      assert.equal(
        textIn(few, 'few-codes'),
        'Recovery codes left: 2. Make new ones before you need them.',
      )
      const form = await visitor.get(NEW_CODES)
      const fields = { email, password: PASSWORD, otp: app.wrongCode() }
      const refused = await visitor.submit(form, NEW_CODES, fields)
      assert.deepEqual([refused.status, noticeIn(refused)], [401, en.currentProofWrong])
      const codes = await visitor.submit(refused, NEW_CODES, { ...fields, otp: app.code() })
      assert.equal(noticeIn(codes), en.newCodesMade)
      const [otp = ''] = codesIn(codes)
      const login = (given: string) =>
        newVisitor().post('/login', { email, password: PASSWORD, otp: given })
      assert.equal((await login(recoveryCodes[9] ?? '')).status, 401)
      assert.ok(isAccount(await login(otp)))
      assert.equal(textIn(await visitor.get('/login'), 'few-codes'), undefined)
    })

    test('it is turned off with a code, and the account says so', async () => {
      const { email, app, visitor, page } = await loggedIn()
      const path = removalIn(page) ?? ''
      const form = await visitor.get(path)
      assert.equal(textIn(form, 'title'), en.turnOffTitle)
      const fields = { email, password: PASSWORD, otp: '' }
      const refused = await visitor.submit(form, path, fields)
      assert.deepEqual([refused.status, textIn(refused, 'otp-error')], [400, en.otpMissing])
      const done = await visitor.submit(refused, path, { ...fields, otp: app.code() })
      assert.equal(noticeIn(done), en.turnedOff)
      assert.equal(textIn(done, 'two-steps-off'), en.twoStepsOff)
      assert.ok(isAccount(await newVisitor().logIn(email)))
      // The forms of a user without one lead back.
      for (const address of [path, NEW_CODES]) {
        assert.equal((await visitor.get(address)).headers.location, '/login')
      }
    })

    test('the password of a user with a second step is changed with a code', async () => {
      const { email, app, visitor } = await loggedIn()
      const path = '/login/password'
      const form = await visitor.get(path)
      const fields = { email, password: PASSWORD, 'new-password': NEW_PASSWORD, otp: '' }
      const missing = await visitor.submit(form, path, fields)
      assert.deepEqual([missing.status, textIn(missing, 'otp-error')], [400, en.otpMissing])
      const wrong = await visitor.submit(missing, path, { ...fields, otp: app.wrongCode() })
      assert.equal(noticeIn(wrong), en.currentProofWrong)
      const done = await visitor.submit(wrong, path, { ...fields, otp: app.code() })
      assert.equal(noticeIn(done), en.passwordChanged)
      // A stranger, and a user without a second step.
      assert.equal(detailsIn(await newVisitor().get(path))?.[1], undefined)
      const other = newVisitor()
      await other.logIn(await service.newUser())
      assert.doesNotMatch((await other.get(path)).text, /name="otp"/)
    })

    test('with a role that demands it, a login leads to the set-up, and on to where it was going', async () => {
      const email = await service.newUser()
      await setRole(service, email)
      const visitor = newVisitor()
      const path = `/login?return_to=${encodeURIComponent(`${APP}/a`)}&prompt=login`
      const asked = await visitor.logIn(email, PASSWORD, path)
      assert.deepEqual([asked.status, noticeIn(asked)], [403, en.twoStepsDemanded])
      assert.equal(visitor.cookies.size, 0)
      assert.doesNotMatch(asked.text, /name="otp"/)
      const app = appOf(asked)
      const fields = { email, password: PASSWORD, 'new-otp': app.code() }
      const wrong = await visitor.submit(asked, SET_UP, { ...fields, password: 'wrong' })
      assert.equal(noticeIn(wrong), en.currentPasswordWrong)
      const codes = await visitor.submit(wrong, SET_UP, fields)
      assert.equal(noticeIn(codes), en.turnedOn)
      const [, next = ''] = /id="stored"[^>]* href="([^"]*)"/.exec(codes.text) ?? []
      assert.equal(refreshIn(await visitor.get(unescaped(next))), `${APP}/a`)

      service.advance(STEP_MS)
      const account = await visitor.get('/login')
      assert.equal(removalIn(account), undefined)
      const { id = '' } = (await service.store.users.findByEmail(email)) ?? {}
      const [factor] = (await service.store.secondFactors.list(id)).factors
      const removal = `${SET_UP}/${factor?.id}/remove`
      const form = await visitor.get(removal)
      const removing = { email, password: PASSWORD, otp: app.code() }
      const refused = await visitor.submit(form, removal, removing)
      assert.deepEqual([refused.status, noticeIn(refused)], [400, en.lastDemanded])
      // The code is not used up.
      const codesForm = await visitor.get(NEW_CODES)
      assert.equal(noticeIn(await visitor.submit(codesForm, NEW_CODES, removing)), en.newCodesMade)
    })

    test('a password that is changed where a second step is demanded leads to the set-up', async () => {
      const email = await service.newUser()
      await setRole(service, email)
      const fields = { email, password: PASSWORD, 'new-password': NEW_PASSWORD }
      const asked = await newVisitor().post('/login/password', fields)
      assert.deepEqual([asked.status, noticeIn(asked)], [403, en.twoStepsDemanded])
      assert.equal(textIn(asked, 'title'), en.setUpTitle)
    })

    test('with a temporary password too, one form asks for both', async () => {
      const email = await service.newUser()
      await setRole(service, email)
      await makeTemporary(service, email)
      const visitor = newVisitor()
      const asked = await visitor.logIn(email)
      assert.deepEqual([asked.status, noticeIn(asked)], [403, en.bothDemanded])
      const app = appOf(asked)
      const fields = {
        ...{ email, password: PASSWORD },
        ...{ 'new-password': NEW_PASSWORD, 'new-otp': app.code() },
      }
      for (const [given, name, error] of [
        [{ 'new-password': '' }, 'new-password-error', /^Choose a password/],
        [{ 'new-password': 'password' }, 'new-password-error', /^Many people/],
        [{ 'new-otp': app.wrongCode() }, 'new-otp-error', /^This code does not fit/],
        [{ password: 'wrong' }, 'notice', /^Your current password is incorrect/],
      ] as const) {
        const refused = await visitor.submit(asked, SET_UP, { ...fields, ...given })
        assert.match(textIn(refused, name) ?? '', error)
        assert.equal(textIn(refused, 'title'), en.setUpBothTitle)
        assert.equal(secretIn(refused), secretIn(asked))
      }
      // Without the new password it is asked for again, with the same secret.
      const { 'new-password': _, ...incomplete } = fields
      const again = await visitor.post(SET_UP, {
        ...incomplete,
        ...{ known: '1', secret: secretIn(asked) },
      })
      assert.deepEqual([again.status, noticeIn(again)], [403, en.bothDemanded])
      assert.equal(secretIn(again), secretIn(asked))
      const codes = await visitor.submit(again, SET_UP, fields)
      assert.equal(noticeIn(codes), en.turnedOn)
      assert.ok(isAccount(await visitor.get('/login')))
      service.advance(STEP_MS)
      const otp = app.code()
      const login = { email, password: NEW_PASSWORD, otp }
      assert.ok(isAccount(await newVisitor().post('/login', login)))
    })

    test('a temporary password of a user with a second step is replaced with one more code', async () => {
      const { email, app } = await newUserWithApp(service, newAddress)
      await makeTemporary(service, email)
      const visitor = newVisitor()
      const login = { email, password: PASSWORD, otp: app.code() }
      const asked = await visitor.post('/login', login)
      assert.deepEqual([asked.status, noticeIn(asked)], [403, en.temporary])
      const fields = { ...login, 'new-password': NEW_PASSWORD }
      const done = await visitor.submit(asked, '/login/password', fields)
      assert.ok(isAccount(done), done.text)
    })

    test('without one, what was typed into the field does not ask for a code', async () => {
      const email = await service.newUser()
      await makeTemporary(service, email)
      const visitor = newVisitor()
      const asked = await visitor.post('/login', { email, password: PASSWORD, otp: '123456' })
      assert.equal(noticeIn(asked), en.temporary)
      assert.doesNotMatch(asked.text, /name="otp"/)
      const fields = { email, password: PASSWORD, 'new-password': NEW_PASSWORD }
      assert.ok(isAccount(await visitor.submit(asked, '/login/password', fields)))
    })

    test('the account warns that somebody knows the password, until it is changed', async () => {
      const { email, app, visitor } = await loggedIn()
      for (let i = 0; i < 3; i++) {
        await newVisitor().post('/login', { email, password: PASSWORD, otp: app.wrongCode(i) })
      }
      assert.equal(textIn(await visitor.get('/login'), 'password-known'), undefined)
      const login = { email, password: PASSWORD, otp: app.code() }
      const warned = await visitor.post('/login', login)
      assert.match(textIn(warned, 'password-known') ?? '', /entered 3 times with a wrong code/)
      assert.match(warned.text, /id="password-known"[^>]* autofocus/)
      assert.equal(textIn(warned, 'failures'), undefined)
      service.advance(STEP_MS)
      const form = await visitor.get('/login/password')
      const change = { ...login, otp: app.code(), 'new-password': NEW_PASSWORD }
      const changed = await visitor.submit(form, '/login/password', change)
      assert.equal(noticeIn(changed), en.passwordChanged)
      for (const page of [changed, await visitor.get('/login')]) {
        assert.equal(textIn(page, 'password-known'), undefined)
      }
    })

    test('without a session the forms lead to the login; a link of another site asks once more', async () => {
      const removal = `${SET_UP}/${crypto.randomUUID()}/remove`
      for (const path of [SET_UP, NEW_CODES, removal]) {
        const answer = await newVisitor().get(`${path}?lang=de`)
        assert.deepEqual([answer.status, answer.headers.location], [303, '/login?lang=de'])
        const foreign = await newVisitor().get(path, { 'Sec-Fetch-Site': 'cross-site' })
        assert.equal(refreshIn(foreign), `${path}?again=1`)
      }
    })

    test('all of it is in German, too', async () => {
      const email = await service.newUser()
      const visitor = newVisitor()
      const off = await visitor.post('/login?lang=de', { email, password: PASSWORD })
      assert.equal(textIn(off, 'two-steps-off'), de.twoStepsOff)
      const form = await visitor.get(`${SET_UP}?lang=de`)
      const app = appOf(form)
      const fields = { email, password: PASSWORD, 'new-otp': app.code() }
      const wrong = await visitor.submit(form, SET_UP, { ...fields, 'new-otp': app.wrongCode() })
      assert.equal(textIn(wrong, 'new-otp-error'), de.newOtpWrong)
      const codes = await visitor.submit(wrong, SET_UP, fields)
      assert.equal(noticeIn(codes), de.turnedOn)
      assert.match(codes.text, /erstellt am \d+\.\d+\.\d{4}</)
      assert.match((await visitor.get('/login?lang=de')).text, /noch 10 von 10/)
      const refused = await newVisitor().post('/login?lang=de', { email, password: PASSWORD })
      assert.equal(noticeIn(refused), de.invalidProof)
    })

    test('whatever the fields have is shown as text, and an invented secret is replaced', async () => {
      const { visitor } = await loggedIn()
      const csrf = /name="csrf" value="([^"]+)"/.exec((await visitor.get(SET_UP)).text)?.[1] ?? ''
      const fields = { password: MARKUP, otp: MARKUP, known: '1', 'new-otp': MARKUP, csrf }
      for (const email of [MARKUP, '株'.repeat(4000), '\u0000', ':'.repeat(300)]) {
        for (const secret of [MARKUP, '', 'A'.repeat(31), 'qz4k '.repeat(8)]) {
          for (const path of [
            SET_UP,
            NEW_CODES,
            `${SET_UP}/${encodeURIComponent(MARKUP)}/remove`,
          ]) {
            const answer = await visitor.post(path, { ...fields, email, secret })
            assert.ok([400, 401, 413].includes(answer.status), `${answer.status}`)
            assert.doesNotMatch(answer.text, /<img src=x|'>|&amp;/)
            if (path === SET_UP && answer.status === 401) {
              assert.match(secretIn(answer), /^[A-Z2-7]{32}$/)
            }
          }
        }
      }
    })
  })
}

test('a form is sent to this service, whatever host the request line names', async () => {
  const service = await own(startTestService('sqlite'))
  const { exchange } = await createRawClient(service)
  for (const host of ['', 'https://other.example']) {
    const line = `POST ${host}${SET_UP}?lang=en HTTP/1.1\r\nHost: other.example\r\nConnection: close`
    const type = 'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 6'
    const [answer] = await exchange(
      `${line}\r\nSec-Fetch-Site: same-origin\r\n${type}\r\n\r\nemail=`,
    )
    assert.equal(answer?.status, 400)
    assert.match(answer.body, /action="\/login\/second-factor\?lang=en"/)
    assert.doesNotMatch(answer.body, /other\.example/)
  }
})

test('with SECOND_FACTOR=off there is no field and no set-up, but a stored factor is demanded', async () => {
  const service = await own(startTestService('sqlite'))
  const { email, app } = await newUserWithApp(service, createAddresses())
  const parts = { database: service.database, dataDir: service.dataDir }
  const other = await own(startTestService('sqlite', { SECOND_FACTOR: 'off' }, parts))
  other.advance(STEP_MS)
  const visitor = createVisitor(other)
  const refused = await visitor.logIn(email)
  assert.deepEqual([refused.status, noticeIn(refused)], [401, en.invalidCredentials])
  assert.doesNotMatch(refused.text, /two-steps/)
  const account = await visitor.post('/login', { email, password: PASSWORD, otp: app.code() })
  assert.ok(isAccount(account))
  assert.doesNotMatch(account.text, /two-steps|second-factor/)
  const unavailable = await visitor.get(SET_UP)
  assert.deepEqual([unavailable.status, noticeIn(unavailable)], [503, en.twoStepsUnavailable])
  assert.equal((await visitor.get('/login/password')).text.includes('name="otp"'), false)
})

test('with SECOND_FACTOR_ROLES=* the field is open, and says when it stays empty', async () => {
  const service = await own(startTestService('sqlite', { SECOND_FACTOR_ROLES: '*' }))
  for (const path of ['/login', '/login/password']) {
    const page = await createVisitor(service).get(path)
    assert.equal(detailsIn(page)?.[1], ' open')
    assert.match(textIn(page, 'otp-hint') ?? '', new RegExp(en.otpUnused))
  }
})
