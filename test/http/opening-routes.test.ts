// Every route, and whether it opens a session. One that does always asks for the second factor of the account.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { randomToken } from '../../src/system/identifiers.ts'
import { startAdminService } from '../support/admin-service.ts'
import { createAuthenticator, newUserWithApp, SECOND_FACTOR } from '../support/authenticator.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { type Call, createAddresses, PASSWORD, UNLIMITED } from '../support/service.ts'
import { AUTH, cookie, cookieIn, SESSION_COOKIE } from '../support/session-client.ts'
import { NAVIGATION, refreshIn } from '../support/visitor.ts'

const CALLBACK = 'https://app.example.net/logged-in'
const NEW_PASSWORD = 'seven green boats at noon'

type Typed = {
  email: string
  password: string
  otp: string
  newApp: { secret: string; code(): string }
}
const form = (path: string, fields: Record<string, string>): Call => ({
  path,
  headers: {
    'Sec-Fetch-Site': 'same-origin',
    'Content-Type': 'application/x-www-form-urlencoded',
  },
  body: String(new URLSearchParams(fields)),
})

/** What each of these routes needs to open a session, for an account with a second factor. */
const OPENING: Record<string, (typed: Typed) => Call> = {
  'POST /api/v1/auth/login': ({ newApp: _, ...body }) => ({ body }),
  'POST /api/v1/auth/password': ({ email, password, otp }) => ({
    path: `${AUTH}/password`,
    body: { email, currentPassword: password, newPassword: NEW_PASSWORD, otp },
  }),
  'POST /api/v1/auth/second-factor': ({ newApp, ...typed }) => ({
    path: SECOND_FACTOR,
    body: { ...typed, secret: newApp.secret, newOtp: newApp.code() },
  }),
  'POST /login': ({ newApp: _, ...fields }) => form('/login', fields),
  'POST /login/password': ({ newApp: _, ...fields }) =>
    form('/login/password', { ...fields, 'new-password': NEW_PASSWORD }),
  'POST /login/second-factor': ({ newApp, ...fields }) =>
    form('/login/second-factor', {
      ...fields,
      ...{ secret: newApp.secret, 'new-otp': newApp.code() },
    }),
  'POST /login/second-factor/recovery-codes': ({ newApp: _, ...fields }) =>
    form('/login/second-factor/recovery-codes', fields),
  'POST /login/second-factor/:factor/remove': ({ newApp: _, ...fields }) =>
    form('/login/second-factor/app/remove', fields),
}
/** It opens one by a code that comes from a session. */
const REDEEMING = 'POST /api/v1/auth/code'
/** A route that is added must be added here, or above. */
const OTHERS = [
  ...['POST /api/v1/auth/refresh', 'POST /api/v1/auth/logout', 'GET /api/v1/auth/session'],
  ...['GET /api/v1/auth/verify', 'GET /api/v1/auth/sessions', 'DELETE /api/v1/auth/sessions'],
  ...['DELETE /api/v1/auth/sessions/:id', 'GET /.well-known/jwks.json'],
  ...['GET /.well-known/ended-sessions', 'GET /.well-known/change-password'],
  ...['GET /', 'GET /login', 'GET /login/password', 'GET /login/second-factor'],
  ...['GET /login/second-factor/recovery-codes', 'GET /login/second-factor/:factor/remove'],
  ...['/login/logout', '/login/sessions/others/end', '/login/sessions/:id/end'].flatMap(path => [
    `GET ${path}`,
    `POST ${path}`,
  ]),
  ...['GET /openapi.json', 'GET /docs'],
]

/** Every route that is added by the action, except those that only refuse a method, and those of the admin API. */
async function routesOf<T>(start: () => Promise<T>): Promise<{ started: T; routes: string[] }> {
  const routes = new Set<string>()
  const onApp = (message: unknown) => {
    const { fastify } = Object(message) as { fastify: FastifyInstance }
    fastify.addHook('onRoute', ({ method, url, handler, onRequest }) => {
      const isRefused = Object(handler) === onRequest
      const isAdmin = url.startsWith('/admin/v1/')
      for (const name of isRefused || isAdmin ? [] : [method].flat()) routes.add(`${name} ${url}`)
    })
  }
  subscribe('fastify.initialization', onApp)
  const started = await start()
  unsubscribe('fastify.initialization', onApp)
  return { started, routes: [...routes] }
}

for (const engine of ENGINES_BY_RUN) {
  describe(`the routes that open a session, on ${engine}`, async () => {
    const { started, routes } = await routesOf(() =>
      startAdminService(engine, { ...UNLIMITED, CODE_CALLBACKS: CALLBACK }),
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

    test('are all known', () => {
      const listed = [...Object.keys(OPENING), REDEEMING, ...OTHERS]
      const isKept = (route: string) => !/^(HEAD |GET \/assets\/)/.test(route)
      assert.deepEqual(routes.filter(isKept).toSorted(), listed.toSorted())
    })

    for (const [route, toCall] of Object.entries(OPENING)) {
      test(`${route} opens one only with password and proof, whose session says so`, async () => {
        const { id, email, app, recoveryCodes } = await newUser()
        const newApp = createAuthenticator(service.now)
        const attempt = (otp: string, password = PASSWORD) =>
          call(toCall({ email, password, otp, newApp }))
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
