// Every operation of the public API that uses the store.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import type { OutgoingHttpHeaders } from 'node:http'
import { createAuthenticator } from '../../support/authenticator.ts'
import { challengeOf, createPasskey } from '../../support/passkey.ts'
import { until } from '../../support/process.ts'
import { type Call, PASSWORD } from '../../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  DEVICE_COOKIE,
  MINUTE_MS,
  ownChange,
  SECOND_MS,
} from '../../support/session-client.ts'
import { NAVIGATION, refreshIn } from '../../support/visitor.ts'
import { changeAt } from '../fixtures.ts'
import type { Operations } from './loop.ts'
import type { Requests, Response } from './requests.ts'
import { matches, NEW_PASSWORD } from './subjects.ts'

export const CALLBACK = 'https://app.example.net/logged-in'
/** The test reads the hash meanwhile, by statements that are counted too. */
export const RENEWING = 'POST /login that renews the hash'
const OTHER_COST = 5
const PAIR_FAILURES = 5

export function publicRequests(requests: Requests): Operations<Response> {
  const { service, subjects, newAddress, newUser, newSession, logIn, isOpened } = requests
  const { store, call, now } = service
  const { hasUser, isLive } = subjects
  const at = (path: string, more: Call): Call => ({ path: `${AUTH}${path}`, ...more })
  const refresh = (refreshToken: string) => at('/refresh', { body: { refreshToken } })
  const isEnded = (sessionId: string) => async () => !(await isLive(sessionId))

  type Preparation = (user: Awaited<ReturnType<typeof newUser>>) => Promise<unknown>
  /** An attempt that is refused, or opens no session. */
  const attempt =
    (success: number, path: string, fields: object, before?: Preparation) => async () => {
      const user = await newUser()
      await before?.(user)
      const { email, from } = user
      const hasFailed = () => hasUser(email, ({ failedLoginAttempts }) => failedLoginAttempts === 1)
      return {
        ...{ email, success },
        run: () => call(at(path, { from, body: { email, ...fields } })),
        ...(success === 401 && { isDone: hasFailed }),
      }
    }

  const login = (success: number, before: Preparation) =>
    attempt(success, '/login', { password: PASSWORD }, before)

  /** A request of a session, and whether it ends the session. */
  const within =
    (
      toCall: (session: Awaited<ReturnType<typeof newSession>>) => Call | Promise<Call>,
      isEnding = false,
      success = 200,
    ) =>
    async () => {
      const session = await newSession()
      const { email, sessionId } = session
      const request = await toCall(session)
      const run = () => call(request)
      return { email, success, run, ...(isEnding && { isDone: isEnded(sessionId) }) }
    }
  const logout = (toCall: (session: Awaited<ReturnType<typeof newSession>>) => Call) =>
    within(session => at('/logout', toCall(session)), true)
  const fromAnother = (path: (sessionId: string) => string) =>
    within(async ({ email, sessionId }) => {
      const { accessToken } = await logIn(email)
      return at(path(sessionId), { method: 'DELETE', headers: bearer(accessToken) })
    }, true)
  const reading = ['/session', '/sessions', '/verify'].flatMap(path => {
    const by = (headers: OutgoingHttpHeaders) => at(path, { method: 'GET', headers })
    return Object.entries({
      [`GET ${path} by access token`]: within(({ accessToken }) => by(bearer(accessToken))),
      [`GET ${path} by a cookie whose use is noted`]: within(session => {
        service.advance(MINUTE_MS)
        return by(cookie(session.cookie))
      }),
    })
  })

  async function newCode() {
    const session = await newSession()
    const verifier = randomBytes(32).toString('base64url')
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    const query = new URLSearchParams({ return_to: CALLBACK, challenge })
    const headers = { ...cookie(session.cookie), ...NAVIGATION }
    const issue = () => call({ method: 'GET', path: `/login?${query}`, headers })
    return { ...session, verifier, issue }
  }

  async function newUserWithFactor() {
    const user = await newUser()
    const app = createAuthenticator(now)
    const body = { email: user.email, password: PASSWORD, secret: app.secret, newOtp: app.code() }
    await call(at('/second-factor', { from: newAddress(), body }))
    return { ...user, app }
  }

  const hasFactors = (userId: string, count: number) => async () =>
    (await store.secondFactors.list(userId)).factors.length === count

  async function newUserWithPasskey() {
    const user = await newUser()
    const passkey = createPasskey()
    const newPasskey = passkey.create(await challengeOf(service))
    const body = { email: user.email, password: PASSWORD, newPasskey }
    await call(at('/second-factor', { from: newAddress(), body }))
    const id = (await store.secondFactors.list(user.userId)).factors[0]?.id
    return { ...user, passkey, id }
  }

  return {
    async 'POST /login by a program'() {
      const { email, userId, from } = await newUser()
      const run = () => call({ from, body: { email, password: PASSWORD } })
      return { email, run, isDone: isOpened(userId) }
    },
    async 'POST /login by a browser with its cookies'() {
      const { email, userId, from, ...old } = await newSession()
      const headers = {
        'Sec-Fetch-Site': 'same-origin',
        Cookie: `__Host-session=${old.cookie}; ${DEVICE_COOKIE}=${old.device}`,
      }
      const run = () => call({ from, headers, body: { email, password: PASSWORD } })
      const isNew = isOpened(userId, 1)
      // The session of the cookie ends in the same transaction, so there is one session before and after.
      const isReplaced = isEnded(old.sessionId)
      return { email, run, isDone: async answer => (await isReplaced()) || isNew(answer) }
    },
    async [RENEWING]() {
      const { email, userId, from } = await newUser(OTHER_COST)
      const { passwordHash } = (await store.users.findByEmail(email)) ?? {}
      const isRenewed = () => hasUser(email, user => user.passwordHash !== passwordHash)
      const failures = () =>
        service.logged().filter(it => it.event === 'login.rehash_failed' && it.userId === userId)
      return {
        email,
        async run() {
          const before = failures().length
          const answer = await call({ from, body: { email, password: PASSWORD } })
          // The hash is stored after the answer.
          const isOver = async () => failures().length > before || (await isRenewed())
          if (answer.status === 200) await until(isOver)
          return answer
        },
        isDone: isOpened(userId),
      }
    },
    'POST /login with a wrong password': attempt(401, '/login', { password: 'wrong' }),
    async 'POST /login with an unknown email'() {
      const [email, from] = [`${randomUUID()}@example.com`, newAddress()]
      return { success: 401, run: () => call({ from, body: { email, password: PASSWORD } }) }
    },
    'POST /login with a temporary password': login(403, async ({ email, userId }) => {
      const { passwordHash = '' } = (await store.users.findByEmail(email)) ?? {}
      const end = new Date(now().getTime() + MINUTE_MS * 60)
      await store.users.setPassword(userId, passwordHash, changeAt(now()), end)
    }),
    'POST /login after too many failures': login(429, async ({ email, from }) => {
      for (let failure = 0; failure < PAIR_FAILURES; failure++) {
        await call({ from, body: { email, password: 'wrong' } })
      }
    }),
    async 'POST /password'() {
      const { email, from, sessionId } = await newSession()
      const body = { email, currentPassword: PASSWORD, newPassword: NEW_PASSWORD }
      return {
        email,
        run: () => call(at('/password', { from, body })),
        // The password is replaced if and only if the earlier session has ended.
        async isDone() {
          const isReplaced = await hasUser(email, matches(NEW_PASSWORD))
          if (isReplaced === (await isLive(sessionId)))
            throw new Error('the password was changed in part')
          return isReplaced
        },
      }
    },
    // No next login with the password alone: it must fail, unless the change was undone.
    async 'POST /second-factor that sets one up'() {
      const { email, userId, from, sessionId } = await newSession()
      const { secret, code } = createAuthenticator(now)
      const body = () => ({ email, password: PASSWORD, secret, newOtp: code() })
      return {
        run: () => call(at('/second-factor', { from, body: body() })),
        async isDone() {
          const { factors, recoveryCodesLeft } = await store.secondFactors.list(userId)
          const isSetUp = factors.length === 1 && recoveryCodesLeft === 10
          if (isSetUp === (await isLive(sessionId)))
            throw new Error('the second factor was set up in part')
          return isSetUp
        },
      }
    },
    async 'POST /second-factor that removes it'() {
      const { email, userId, from, app } = await newUserWithFactor()
      const body = () => ({ email, password: PASSWORD, secret: null, otp: app.code(1) })
      const run = () => call(at('/second-factor', { from, body: body() }))
      return { run, isDone: hasFactors(userId, 0) }
    },
    async 'POST /second-factor that adds a passkey'() {
      const { email, userId, from, app } = await newUserWithFactor()
      const newPasskey = createPasskey().create(await challengeOf(service))
      const body = () => ({ email, password: PASSWORD, otp: app.code(1), newPasskey })
      const run = () => call(at('/second-factor', { from, body: body() }))
      return { run, isDone: hasFactors(userId, 2) }
    },
    async 'POST /second-factor that removes a passkey'() {
      const { email, userId, from, passkey, id } = await newUserWithPasskey()
      const proof = passkey.get(await challengeOf(service))
      const body = { email, password: PASSWORD, passkey: proof, remove: id }
      return {
        run: () => call(at('/second-factor', { from, body })),
        isDone: hasFactors(userId, 0),
      }
    },
    async 'POST /login with a passkey'() {
      const { email, userId, from, passkey } = await newUserWithPasskey()
      const body = { email, password: PASSWORD, passkey: passkey.get(await challengeOf(service)) }
      return { run: () => call(at('/login', { from, body })), isDone: isOpened(userId, 1) }
    },
    async 'POST /login with a code'() {
      const { email, userId, from, app } = await newUserWithFactor()
      const body = () => ({ email, password: PASSWORD, otp: app.code(1) })
      return { run: () => call(at('/login', { from, body: body() })), isDone: isOpened(userId, 1) }
    },
    async 'POST /login with a wrong code'() {
      const { email, from, app } = await newUserWithFactor()
      const body = { email, password: PASSWORD, otp: app.wrongCode() }
      return {
        success: 401,
        run: () => call(at('/login', { from, body })),
        isDone: () => hasUser(email, user => user.failedSecondSteps === 1),
      }
    },
    'POST /password with a wrong password': attempt(401, '/password', {
      currentPassword: 'wrong',
      newPassword: NEW_PASSWORD,
    }),
    'POST /password with a new one that has the name of the user': attempt(400, '/password', {
      currentPassword: PASSWORD,
      newPassword: 'test user 1',
    }),
    async 'GET /login that issues a code'() {
      const { email, issue } = await newCode()
      return { email, run: issue }
    },
    async 'POST /code'() {
      const { email, userId, verifier, issue } = await newCode()
      const code = new URL(refreshIn(await issue()) ?? '').searchParams.get('code')
      const run = () => call(at('/code', { body: { code, verifier } }))
      return { email, run, isDone: isOpened(userId, 1) }
    },
    'POST /refresh': within(({ refreshToken }) => refresh(refreshToken)),
    'POST /refresh again by the same caller': within(async ({ refreshToken }) => {
      await call(refresh(refreshToken))
      return refresh(refreshToken)
    }),
    'POST /refresh with a token that another caller has used': within(
      async ({ from, refreshToken }) => {
        await call(refresh(refreshToken))
        return { ...refresh(refreshToken), from }
      },
      true,
      401,
    ),
    'POST /refresh by cookie': within(session => at('/refresh', { headers: ownChange(session) })),
    'POST /logout by refresh token': logout(({ refreshToken }) => ({ body: { refreshToken } })),
    'POST /logout by access token': logout(({ accessToken }) => ({ headers: bearer(accessToken) })),
    'POST /logout by cookie': logout(session => ({ headers: ownChange(session) })),
    'DELETE /sessions': fromAnother(() => '/sessions'),
    'DELETE /sessions/{id}': fromAnother(sessionId => `/sessions/${sessionId}`),
    ...Object.fromEntries(reading),
    async 'GET /.well-known/ended-sessions'() {
      const { email, sessionId } = await newSession()
      await store.sessions.end(sessionId, now())
      return {
        email,
        run() {
          // All callers share one read in a second, also one that failed.
          service.advance(SECOND_MS)
          return call({ method: 'GET', path: '/.well-known/ended-sessions' })
        },
        isDone: async ({ text }) => text.includes(sessionId),
      }
    },
  }
}
