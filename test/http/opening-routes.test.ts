// Every route, and whether it opens a session. One that does always asks for the second factor of the account.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import type { NewPasskey } from '../../src/login/passkey.ts'
import { randomToken } from '../../src/system/identifiers.ts'
import { createAuthenticator, newUserWithApp, SECOND_FACTOR } from '../support/authenticator.ts'
import { startConsole } from '../support/console.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { challengeOf, createPasskey, joinNew, ORIGIN } from '../support/passkey.ts'
import { type Call, createAddresses, PASSWORD, UNLIMITED } from '../support/service.ts'
import { AUTH, cookie, cookieIn, SESSION_COOKIE } from '../support/session-client.ts'
import { NAVIGATION, refreshIn } from '../support/visitor.ts'

const CALLBACK = 'https://app.example.net/logged-in'
const NEW_PASSWORD = 'seven green boats at noon'
const DOMAIN = 'example.com'
const CONSOLE_ORIGIN = 'https://console.example.com'
/** The console has the same passkeys. */
const SHARED = { PASSKEY_RP_ID: DOMAIN, ADMIN_ORIGIN: CONSOLE_ORIGIN }

type Typed = {
  email: string
  password: string
  otp: string
  newApp: { secret: string; code(): string }
  newPasskey: NewPasskey
  factorId: string
}
const form = (path: string, { email, password, otp }: Typed, fields = {}): Call => ({
  path,
  headers: {
    'Sec-Fetch-Site': 'same-origin',
    'Content-Type': 'application/x-www-form-urlencoded',
  },
  body: String(new URLSearchParams({ email, password, otp, ...fields })),
})

/** What each of these routes needs to open a session, for an account with a second factor. */
const OPENING: Record<string, (typed: Typed) => Call> = {
  'POST /api/v1/auth/login': ({ email, password, otp }) => ({ body: { email, password, otp } }),
  'POST /api/v1/auth/password': ({ email, password, otp }) => ({
    path: `${AUTH}/password`,
    body: { email, currentPassword: password, newPassword: NEW_PASSWORD, otp },
  }),
  'POST /api/v1/auth/second-factor': ({ email, password, otp, newApp }) => ({
    path: SECOND_FACTOR,
    body: { email, password, otp, secret: newApp.secret, newOtp: newApp.code() },
  }),
  'POST /login': typed => form('/login', typed),
  'POST /login/password': typed => form('/login/password', typed, { 'new-password': NEW_PASSWORD }),
  'POST /login/second-factor': typed => {
    const { secret, code } = typed.newApp
    return form('/login/second-factor', typed, { secret, 'new-otp': code() })
  },
  'POST /login/second-factor/passkey': typed => {
    const fields = { name: 'A passkey', 'new-passkey': joinNew(typed.newPasskey) }
    return form('/login/second-factor/passkey', typed, fields)
  },
  'POST /login/second-factor/recovery-codes': typed =>
    form('/login/second-factor/recovery-codes', typed),
  'POST /login/second-factor/:factor/remove': typed =>
    form(`/login/second-factor/${typed.factorId}/remove`, typed),
}
/** It opens one by a code that comes from a session. */
const REDEEMING = 'POST /api/v1/auth/code'
/** Those of the pages, which the console has too. A route that is added must be added here, above, or below. */
const PAGES = [
  ...['GET /', 'GET /login', 'GET /login/password', 'GET /login/second-factor'],
  ...['GET /login/second-factor/recovery-codes', 'GET /login/second-factor/:factor/remove'],
  ...['GET /login/second-factor/passkey', 'GET /api/v1/auth/passkey-challenge'],
  ...['GET /login/logout', 'POST /login/logout', 'GET /openapi.json', 'GET /docs'],
]
const OTHERS = [
  ...['POST /api/v1/auth/refresh', 'POST /api/v1/auth/logout', 'GET /api/v1/auth/session'],
  ...['GET /api/v1/auth/verify', 'GET /api/v1/auth/sessions', 'DELETE /api/v1/auth/sessions'],
  ...['DELETE /api/v1/auth/sessions/:id', 'GET /.well-known/jwks.json'],
  ...['GET /.well-known/ended-sessions', 'GET /.well-known/change-password'],
  ...['/login/sessions/others/end', '/login/sessions/:id/end'].flatMap(path => [
    `GET ${path}`,
    `POST ${path}`,
  ]),
]
const CONSOLE = [
  ...['GET /console', 'GET /console/people', 'POST /console/people', 'GET /console/people/new'],
  ...['GET /console/people/:id', 'GET /console/history'],
]

/**
 * Every route of each app that the action makes, except those that only refuse a method, files, operations of the admin
 * API, and forms about a person, which need a session.
 */
async function routesOf<T>(start: () => Promise<T>): Promise<{ started: T; routes: string[][] }> {
  const apps: Set<string>[] = []
  const onApp = (message: unknown) => {
    const { fastify } = Object(message) as { fastify: FastifyInstance }
    const routes = new Set<string>()
    apps.push(routes)
    fastify.addHook('onRoute', ({ method, url, handler, onRequest }) => {
      const isRefused = Object(handler) === onRequest
      const isKept = !/^\/(admin\/v1|assets|console\/people\/:id)\//.test(url) && !isRefused
      for (const name of isKept ? [method].flat() : []) routes.add(`${name} ${url}`)
    })
  }
  subscribe('fastify.initialization', onApp)
  const started = await start()
  unsubscribe('fastify.initialization', onApp)
  const isKept = (route: string) => !route.startsWith('HEAD ')
  return { started, routes: apps.map(routes => [...routes].filter(isKept).toSorted()) }
}

for (const engine of ENGINES_BY_RUN) {
  describe(`the routes that open a session, on ${engine}`, async () => {
    const { started, routes } = await routesOf(() =>
      startConsole(engine, { ...UNLIMITED, ...SHARED, CODE_CALLBACKS: CALLBACK }),
    )
    const service = await own(Promise.resolve(started))
    const newAddress = createAddresses()
    const call = (request: Call) => service.call({ from: newAddress(), ...request })
    async function newUser() {
      const user = await newUserWithApp({ ...service, call }, newAddress)
      const { id = '' } = (await service.store.users.findByEmail(user.email)) ?? {}
      return { ...user, id }
    }
    const liveOf = (id: string) => service.store.sessions.countLive(id, service.now())

    const forms = Object.keys(OPENING).filter(route => route.startsWith('POST /login'))

    test('are all known', () => {
      const known = [
        [...Object.keys(OPENING), REDEEMING, ...PAGES, ...OTHERS].toSorted(),
        [...forms, ...PAGES, ...CONSOLE].toSorted(),
      ]
      // Other files of this process may have started services meanwhile, also without a console.
      const served = routes.filter(names => names.includes('GET /login'))
      assert.deepEqual(new Set(served.map(String)), new Set(known.map(String)))
    })

    const atConsole = ({ from = newAddress(), ...request }: Call) =>
      service.callConsole({ from, ...request })
    for (const [route, port, callPort] of [
      ...Object.keys(OPENING).map(route => [route, 'the public port', call] as const),
      ...forms.map(route => [route, 'that of the console', atConsole] as const),
    ]) {
      const toCall = OPENING[route]
      assert.ok(toCall)
      test(`${route} at ${port} opens one only with password and proof, whose session says so`, async () => {
        const { id, email, app, recoveryCodes } = await newUser()
        const newApp = createAuthenticator(service.now)
        const [{ id: factorId = '' } = {}] = (await service.store.secondFactors.list(id)).factors
        const challenge = await challengeOf({ call: callPort })
        const client = { origin: callPort === call ? ORIGIN : CONSOLE_ORIGIN }
        const newPasskey = createPasskey().create(challenge, { client, rpId: DOMAIN })
        const attempt = (otp: string, password = PASSWORD) =>
          callPort(toCall({ email, password, otp, newApp, newPasskey, factorId }))
        const before = await liveOf(id)
        const [proof = '', another = ''] = recoveryCodes
        for (const [otp, password] of [
          [''],
          [app.wrongCode()],
          [newApp.code()],
          [another.replace(/.$/, last => (last === '2' ? '3' : '2'))],
          [app.code(), 'wrong'],
          [proof, 'wrong'],
        ] as const) {
          const { status, headers, text } = await attempt(otp, password)
          // A form with an empty field is refused at once.
          assert.equal(status, otp === '' && status === 400 ? 400 : 401, `${otp} ${text}`)
          assert.equal(headers['set-cookie'], undefined)
          assert.ok(!text.includes('accessToken'))
          assert.equal(await liveOf(id), before)
        }
        const { status, text } = await attempt(proof)
        assert.ok(status === 200 || status === 303, text)
        const [session] = await service.database.rows(`select amr from sessions
          where user_id = '${id}' and ended_at is null order by created_at desc, id limit 1`)
        assert.equal(session?.amr, 'pwd otp mfa')
      })
    }

    test(`${REDEEMING} opens one with what the session of the code has proved; none after a set-up`, async () => {
      const logIn = async (email: string, otp = '') => {
        const headers = { 'Sec-Fetch-Site': 'same-origin' }
        const answer = await call({ headers, body: { email, password: PASSWORD, otp } })
        assert.equal(answer.status, 200)
        return cookieIn(answer, SESSION_COOKIE)
      }
      const issue = async (session: string) => {
        const verifier = randomToken()
        const challenge = hash('sha256', verifier, 'base64url')
        const page = await call({
          method: 'GET',
          path: `/login?${new URLSearchParams({ return_to: CALLBACK, challenge })}`,
          headers: { ...cookie(session), ...NAVIGATION, Accept: 'text/html' },
        })
        const code = new URL(refreshIn(page) ?? '').searchParams.get('code')
        return { path: `${AUTH}/code`, body: { code, verifier } }
      }
      const { email, app } = await newUser()
      const redeemed = await call(await issue(await logIn(email, app.code())))
      assert.equal(redeemed.status, 200)
      const { sessions } = (
        await call({
          ...{ method: 'GET', path: `${AUTH}/sessions` },
          headers: { Authorization: `Bearer ${redeemed.json.data.accessToken}` },
        })
      ).json.data
      assert.deepEqual(sessions.find(({ current }) => current)?.amr, ['pwd', 'otp', 'mfa'])

      const early = await service.newUser()
      const code = await issue(await logIn(early))
      const { secret, code: newOtp } = createAuthenticator(service.now)
      const setUp = { email: early, password: PASSWORD, secret, newOtp: newOtp() }
      assert.equal((await call({ path: SECOND_FACTOR, body: setUp })).status, 200)
      assert.equal((await call(code)).status, 401)
    })
  })
}
