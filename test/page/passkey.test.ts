// Passkeys on the pages of the login and of the console. What the script does in a browser, the tests do here: they fill in
// a hidden field.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import de from '../../src/page/texts/de.json' with { type: 'json' }
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { changeAt } from '../storage/fixtures.ts'
import { createAuthenticator, newUserWithApp, STEP_MS } from '../support/authenticator.ts'
import { CONSOLE_COOKIE, PEOPLE, startConsole } from '../support/console.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import {
  challengeOf,
  createPasskey,
  FLAGS,
  join,
  joinNew,
  ORIGIN,
  type Passkey,
  type Tampered,
} from '../support/passkey.ts'
import { type Answer, createAddresses, PASSWORD, UNLIMITED } from '../support/service.ts'
import { ownSessions } from '../support/session-client.ts'
import { createVisitor, makeTemporary, noticeIn, textIn, unescaped } from '../support/visitor.ts'

const SET_UP = '/login/second-factor'
const ADD = '/login/second-factor/passkey'
const NEW_PASSWORD = 'seven green boats at noon'
const MARKUP = `"'><img src=x onerror=alert(1)>&amp;`

const isAccount = ({ text }: Answer) => text.includes('id="log-out"')
const hiddenIn = ({ text }: Answer, name: string) =>
  unescaped(new RegExp(`type="hidden" name="${name}" value="([^"]*)"`).exec(text)?.[1] ?? '')
const removalsIn = ({ text }: Answer) =>
  [...text.matchAll(/\/login\/second-factor\/[\da-f-]{36}\/remove/g)].map(([path]) => path)
/** With a script. */
const offersPasskey = ({ text }: Answer) =>
  /id="use-passkey" type="button" data-busy="[^"]+" data-passkey="[^"]+" hidden/.test(text)

for (const engine of ENGINES_BY_RUN) {
  describe(`passkeys on the pages on ${engine}`, async () => {
    const env = { ...UNLIMITED, SECOND_FACTOR_ROLES: 'editor' }
    const service = await ownSessions(engine, env)
    const newAddress = createAddresses()
    const newVisitor = () => createVisitor(service, newAddress())
    const challenge = () => challengeOf(service)
    const newField = async (passkey: Passkey, tampered?: Tampered) => ({
      'new-passkey': joinNew(passkey.create(await challenge(), tampered)),
    })
    const field = async (passkey: Passkey) => ({ passkey: join(passkey.get(await challenge())) })
    const idOf = async (email: string) => (await service.store.users.findByEmail(email))?.id ?? ''

    /** A user with an app and a passkey, logged in to the account. */
    async function loggedIn(name = 'Work laptop') {
      const { email, app } = await newUserWithApp(service, newAddress)
      const [visitor, passkey] = [newVisitor(), createPasskey()]
      await visitor.post('/login', { email, password: PASSWORD, otp: app.code() })
      service.advance(STEP_MS)
      const fields = { email, password: PASSWORD, otp: app.code(), name }
      const form = await visitor.get(ADD)
      const page = await visitor.submit(form, ADD, { ...fields, ...(await newField(passkey)) })
      assert.equal(noticeIn(page), en.passkeyAdded, page.text)
      service.advance(STEP_MS)
      return { email, app, visitor, passkey, page }
    }

    test('the first factor can be one, instead of an app: its recovery codes are shown once', async () => {
      const email = await service.newUser()
      const visitor = newVisitor()
      await visitor.logIn(email)
      const setUp = await visitor.get(SET_UP)
      const button =
        /<button id="passkey-instead" class="switch" formaction="([^"]+)" formnovalidate name="form" value="first-passkey">/
      assert.equal(button.exec(setUp.text)?.[1], ADD)
      const form = await visitor.submit(setUp, SET_UP, { form: 'first-passkey' }, ADD)
      assert.equal(form.status, 200)
      assert.equal(textIn(form, 'title'), en.addPasskey)
      assert.doesNotMatch(form.text, /name="otp"/)
      assert.equal(hiddenIn(form, 'user'), await idOf(email))
      const passkey = createPasskey()
      const fields = {
        email,
        password: PASSWORD,
        name: 'Work laptop',
        ...(await newField(passkey)),
      }
      for (const [given, status, error] of [
        [{ name: ' ' }, 400, en.passkeyNameMissing],
        [{ 'new-passkey': '' }, 400, en.passkeyScript],
        [{ 'new-passkey': 'text' }, 400, en.passkeyNotMade],
        [await newField(createPasskey(), { rpId: 'example.com' }), 400, en.passkeyNotMade],
        [{ password: 'wrong' }, 401, en.currentPasswordWrong],
      ] as const) {
        const refused = await visitor.submit(form, ADD, { ...fields, ...given })
        assert.equal(refused.status, status)
        assert.equal(textIn(refused, 'name-error') || noticeIn(refused), error)
        assert.deepEqual(
          [hiddenIn(refused, 'new-passkey'), hiddenIn(refused, 'user')],
          ['', await idOf(email)],
        )
      }
      const pasted = { ...fields, name: '\tWork\n\u0007laptop ' }
      const codes = await visitor.submit(form, ADD, pasted)
      assert.equal(noticeIn(codes), en.turnedOn)
      assert.equal(codes.text.match(/<li><code>/g)?.length, 10)
      const account = await visitor.get('/login')
      assert.match(account.text, /<strong dir="auto">Work laptop<\/strong>/)
      assert.match(account.text, /id="add-app"/)
      assert.doesNotMatch(account.text, /id="replace"/)
    })

    test('a login takes it in place of a code, with the one refusal for everything that is wrong', async () => {
      const { email, passkey } = await loggedIn()
      const visitor = newVisitor()
      const form = await visitor.get('/login')
      assert.ok(offersPasskey(form))
      const wrong = [{}, await field(createPasskey()), { passkey: '.' }, { passkey: 'a.b.c.d.e' }]
      for (const proof of wrong) {
        const refused = await visitor.submit(form, '/login', {
          email,
          password: PASSWORD,
          ...proof,
        })
        assert.deepEqual([refused.status, noticeIn(refused)], [401, en.invalidProof])
        assert.equal(hiddenIn(refused, 'passkey'), '')
      }
      const proof = await field(passkey)
      // The passkey counts, whatever is left in the other field.
      const both = { email, password: PASSWORD, ...proof, otp: '123456' }
      const page = await visitor.submit(form, '/login', both)
      assert.ok(isAccount(page))
      assert.equal(visitor.cookies.get('__Host-second-step'), '1')
    })

    test('an account lists them by name; each form for a known user offers them only if there is one', async () => {
      const { email, app, visitor, page } = await loggedIn(MARKUP)
      assert.ok(!page.text.includes(MARKUP))
      assert.ok(unescaped(page.text).includes(`Remove: ${MARKUP}`))
      assert.match(
        page.text,
        /id="add-passkey" class="button" href="[^"]+" data-passkey="login.example.com" hidden/,
      )
      const paths = [
        '/login/password',
        SET_UP,
        ADD,
        `${SET_UP}/recovery-codes`,
        ...removalsIn(page),
      ]
      for (const path of paths) assert.ok(offersPasskey(await visitor.get(path)), path)
      assert.match((await visitor.get(ADD)).text, new RegExp(en.useOtherPasskey))
      const { factors } = await service.store.secondFactors.list(await idOf(email))
      const ids = factors.flatMap(({ credentialId }) => credentialId ?? [])
      assert.equal(hiddenIn(await visitor.get(ADD), 'exclude'), ids.join(' '))

      const removal = removalsIn(page).at(-1) ?? ''
      const form = await visitor.get(removal)
      assert.equal(textIn(form, 'title'), `Remove ${MARKUP}?`)
      const fields = { email, password: PASSWORD, otp: app.code() }
      const wrong = await visitor.submit(form, removal, { ...fields, otp: app.wrongCode() })
      assert.equal(noticeIn(wrong), en.currentProofWrong)
      assert.equal(textIn(wrong, 'title'), `Remove ${MARKUP}?`)
      const done = await visitor.submit(wrong, removal, fields)
      assert.equal(noticeIn(done), en.removed)
      const only = removalsIn(done)
      assert.equal(only.length, 1)
      for (const path of ['/login/password', SET_UP, ADD, ...only]) {
        assert.ok(!offersPasskey(await visitor.get(path)), path)
      }
      assert.equal(textIn(await visitor.get(only[0] ?? ''), 'title'), en.turnOffTitle)
      assert.equal((await visitor.get(removal)).headers.location, '/login')
    })

    test('it proves every change: of the password, of the app, of recovery codes and of itself', async () => {
      const { email, passkey, visitor, page } = await loggedIn()
      const submit = async (path: string, fields: object) => {
        const form = await visitor.get(path)
        service.advance(1_000)
        const proof = await field(passkey)
        return visitor.submit(form, path, {
          email,
          password: PASSWORD,
          otp: '',
          ...proof,
          ...fields,
        })
      }
      const [replacing] = [await visitor.get(SET_UP)]
      assert.equal(textIn(replacing, 'title'), en.replaceTitle)
      assert.equal(noticeIn(await submit(`${SET_UP}/recovery-codes`, {})), en.newCodesMade)
      const [app = ''] = removalsIn(page)
      assert.equal(noticeIn(await submit(app, {})), en.removed)
      const adding = await visitor.get(SET_UP)
      assert.equal(textIn(adding, 'title'), en.addAppTitle)
      const { secret, code } = createAuthenticator(service.now)
      const added = await submit(SET_UP, { form: 'add-totp', secret, 'new-otp': code() })
      assert.equal(noticeIn(added), en.appAdded)
      const changed = await submit('/login/password', { 'new-password': NEW_PASSWORD })
      assert.equal(noticeIn(changed), en.passwordChanged)
    })

    test('ten are the most', async () => {
      const { email, visitor, app } = await loggedIn()
      const id = await idOf(email)
      for (let i = 0; i < 9; i++) {
        await service.database.rows(`insert into second_factors (user_id, kind, secret, name,
          credential_id, rp_id) values ('${id}', 'passkey', 'k', 'Key ${i}', 'c${i}', 'login.example.com')`)
      }
      const fields = { email, password: PASSWORD, otp: app.code(), name: 'One more' }
      const full = await visitor.submit(await visitor.get(ADD), ADD, {
        ...{ ...fields, ...(await newField(createPasskey())) },
      })
      assert.deepEqual([full.status, noticeIn(full)], [400, en.passkeysFull])
    })

    test('where a role demands a factor, it is set up with a temporary password in one form', async () => {
      const email = await service.newUser()
      await service.store.users.set(await idOf(email), { role: 'editor' }, changeAt(service.now()))
      await makeTemporary(service, email)
      const visitor = newVisitor()
      const asked = await visitor.logIn(email)
      assert.equal(noticeIn(asked), en.bothDemanded)
      const form = await visitor.submit(asked, SET_UP, { email, form: 'both-passkey' }, ADD)
      assert.equal(hiddenIn(form, 'user'), await idOf(email))
      const passkey = createPasskey()
      const fields = { email, name: 'A', 'new-password': NEW_PASSWORD, password: PASSWORD }
      const wrong = await visitor.submit(form, ADD, {
        ...{ ...fields, ...(await newField(passkey)), password: 'wrong' },
      })
      assert.equal(noticeIn(wrong), en.currentPasswordWrong)
      assert.match(wrong.text, /name="new-password"/)
      const codes = await visitor.submit(wrong, ADD, { ...fields, ...(await newField(passkey)) })
      assert.equal(noticeIn(codes), en.turnedOn)
      const account = await visitor.get('/login')
      assert.deepEqual([isAccount(account), removalsIn(account)], [true, []])
    })

    test('a stranger is led to the login; the language and the way back stay', async () => {
      const stranger = newVisitor()
      assert.equal((await stranger.get(`${ADD}?lang=de`)).headers.location, '/login?lang=de')
      const { visitor } = await loggedIn()
      const form = await visitor.get(`${ADD}?lang=de&return_to=https%3A%2F%2Fa.example`)
      assert.equal(textIn(form, 'title'), de.addPasskey)
      assert.match(
        unescaped(form.text),
        /action="\/login\/second-factor\/passkey\?return_to=[^"]+&lang=de"/,
      )
    })
  })

  describe(`passkeys at the console on ${engine}`, async () => {
    const origin = 'https://console.example.com'
    const rpId = 'example.com'
    const shared = { PASSKEY_RP_ID: rpId, ADMIN_ORIGIN: origin, SECOND_FACTOR_ROLES: 'admin' }
    const service = await own(startConsole(engine, { ...UNLIMITED, ...shared }))
    const challenge = () => challengeOf(service)

    test('one is set up at the first login there, and used there and at the public page, each at its own address', async () => {
      const { email } = await service.newPerson('admin')
      const staff = service.visitor()
      const asked = await staff.get('/login')
      assert.ok(offersPasskey(asked))
      const setUp = await staff.logIn(email)
      assert.equal(noticeIn(setUp), en.twoStepsDemanded)
      const form = await staff.submit(setUp, SET_UP, { email, form: 'first-passkey' }, ADD)
      const passkey = createPasskey('ES256', { origin, rpId })
      const fields = { email, password: PASSWORD, name: 'A' }
      const create = async (client: object) =>
        joinNew(passkey.create(await challenge(), { client: client as Record<string, unknown> }))
      const elsewhere = { ...fields, 'new-passkey': await create({ origin: ORIGIN }) }
      assert.equal((await staff.submit(form, ADD, elsewhere)).status, 400)
      const codes = await staff.submit(form, ADD, { ...fields, 'new-passkey': await create({}) })
      assert.equal(noticeIn(codes), en.turnedOn)
      assert.ok(staff.cookies.has(CONSOLE_COOKIE))

      const use = async (from: string) => {
        service.advance(1_000)
        const client = { origin: from }
        return join(passkey.get(await challengeOf({ call: service.callConsole }), { client }))
      }
      const browser = service.visitor()
      const page = await browser.get('/login')
      for (const [from, status] of [
        [ORIGIN, 401],
        ['https://console.example.com:444', 401],
        [origin, 303],
      ] as const) {
        const sent = { email, password: PASSWORD, passkey: await use(from) }
        const hidden = { ...sent, otp: '' }
        assert.equal((await browser.sendForm('/login', hidden)).status, status, from)
      }
      assert.ok(page.text.includes('data-passkey="example.com"'))
      assert.equal((await browser.get(PEOPLE)).status, 200)
      for (const [from, status] of [
        [origin, 401],
        [ORIGIN, 200],
      ] as const) {
        const assertion = passkey.get(await challenge(), { client: { origin: from } })
        const body = { email, password: PASSWORD, passkey: assertion }
        service.advance(1_000)
        assert.equal((await service.call({ body })).status, status, from)
      }
    })
  })

  test(`a console of another domain, or without its own address, offers no passkeys, on ${engine}`, async () => {
    for (const env of [{}, { ADMIN_ORIGIN: 'https://console.example.com' }]) {
      const service = await own(startConsole(engine, { ...UNLIMITED, ...env }))
      const { email } = await service.newPerson('admin')
      const staff = service.visitor()
      assert.ok(!offersPasskey(await staff.get('/login')))
      const asked = await service.callConsole({
        ...{ method: 'GET', path: '/api/v1/auth/passkey-challenge' },
      })
      assert.equal(asked.status, 503)
      const passkey = createPasskey('ES256', { origin: env.ADMIN_ORIGIN ?? ORIGIN })
      const created = passkey.create(await challengeOf(service), { client: { origin: ORIGIN } })
      const add = { email, password: PASSWORD, newPasskey: created }
      const { status } = await service.call({ path: '/api/v1/auth/second-factor', body: add })
      assert.equal(status, 200)
      service.advance(1_000)
      const use = passkey.get(await challengeOf(service), { flags: FLAGS.up | FLAGS.uv })
      const fields = { email, password: PASSWORD, otp: '', passkey: join(use) }
      assert.equal((await staff.sendForm('/login', fields)).status, 401)
    }
  })
}
