// The operations of the public API that open a session: login, change of the password, codes.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { until } from '../../support/process.ts'
import { type Call, PASSWORD } from '../../support/service.ts'
import { AUTH, cookie, DEVICE_COOKIE, MINUTE_MS } from '../../support/session-client.ts'
import { NAVIGATION, refreshIn } from '../../support/visitor.ts'
import { changeAt } from '../fixtures.ts'
import { matches, NEW_PASSWORD, type Request, type Requests } from './requests.ts'

export const CALLBACK = 'https://app.example.net/logged-in'
/** The test reads the hash meanwhile, by statements that are counted too. */
export const RENEWING = 'POST /login that renews the hash'
const OTHER_COST = 5
const PAIR_FAILURES = 5

export function loginRequests(requests: Requests): Request[] {
  const { service, newAddress, newUser, newSession, isLive, isOpened, hasUser } = requests
  const { store, call, now } = service
  const post = (path: string, more: Call) => call({ path: `${AUTH}${path}`, ...more })
  const hasFailed = (email: string) => hasUser(email, user => user.failedLoginAttempts === 1)

  async function newCode() {
    const session = await newSession()
    const verifier = randomBytes(32).toString('base64url')
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    const query = new URLSearchParams({ return_to: CALLBACK, challenge })
    const headers = { ...cookie(session.cookie), ...NAVIGATION }
    const issue = () => call({ method: 'GET', path: `/login?${query}`, headers })
    return { ...session, verifier, issue }
  }

  return [
    {
      title: 'POST /login by a program',
      success: 200,
      async prepare() {
        const { email, userId, from } = await newUser()
        const run = () => call({ from, body: { email, password: PASSWORD } })
        return { email, run, isDone: isOpened(userId) }
      },
    },
    {
      title: 'POST /login by a browser with its cookies',
      success: 200,
      async prepare() {
        const { email, userId, from, ...old } = await newSession()
        const headers = {
          'Sec-Fetch-Site': 'same-origin',
          Cookie: `__Host-session=${old.cookie}; ${DEVICE_COOKIE}=${old.device}`,
        }
        const run = () => call({ from, headers, body: { email, password: PASSWORD } })
        const isNew = isOpened(userId, 1)
        // The session of the cookie ends in the same transaction, so there is one session before and after.
        const isReplaced = async () => !(await isLive(old.sessionId))
        return { email, run, isDone: async answer => (await isReplaced()) || isNew(answer) }
      },
    },
    {
      title: RENEWING,
      success: 200,
      async prepare() {
        const { email, userId, from } = await newUser(OTHER_COST)
        const { passwordHash } = (await requests.find(email)) ?? {}
        const isRenewed = hasUser(email, user => user.passwordHash !== passwordHash)
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
    },
    {
      title: 'POST /login with a wrong password',
      success: 401,
      async prepare() {
        const { email, from } = await newUser()
        const run = () => call({ from, body: { email, password: 'wrong' } })
        return { email, run, isDone: hasFailed(email) }
      },
    },
    {
      title: 'POST /login with an unknown email',
      success: 401,
      async prepare() {
        const [email, from] = [`${randomUUID()}@example.com`, newAddress()]
        return { email: null, run: () => call({ from, body: { email, password: PASSWORD } }) }
      },
    },
    {
      title: 'POST /login with a temporary password',
      success: 403,
      async prepare() {
        const { email, userId, from } = await newUser()
        const { passwordHash = '' } = (await requests.find(email)) ?? {}
        const end = new Date(now().getTime() + MINUTE_MS * 60)
        await store.users.setPassword(userId, passwordHash, changeAt(now()), end)
        return { email, run: () => call({ from, body: { email, password: PASSWORD } }) }
      },
    },
    {
      title: 'POST /login after too many failures',
      success: 429,
      async prepare() {
        const { email, from } = await newUser()
        for (let failure = 0; failure < PAIR_FAILURES; failure++) {
          await call({ from, body: { email, password: 'wrong' } })
        }
        return { email, run: () => call({ from, body: { email, password: PASSWORD } }) }
      },
    },
    {
      title: 'POST /password',
      success: 200,
      async prepare() {
        const { email, from, sessionId } = await newSession()
        const body = { email, currentPassword: PASSWORD, newPassword: NEW_PASSWORD }
        const isSet = hasUser(email, matches(NEW_PASSWORD))
        const run = () => post('/password', { from, body })
        return {
          email,
          run,
          // The password is replaced if and only if the earlier session has ended.
          async isDone() {
            const [isReplaced, isOver] = [await isSet(), !(await isLive(sessionId))]
            if (isReplaced !== isOver) throw new Error('the password was changed in part')
            return isReplaced
          },
        }
      },
    },
    {
      title: 'POST /password with a wrong password',
      success: 401,
      async prepare() {
        const { email, from } = await newUser()
        const body = { email, currentPassword: 'wrong', newPassword: NEW_PASSWORD }
        return { email, run: () => post('/password', { from, body }), isDone: hasFailed(email) }
      },
    },
    {
      title: 'POST /password with a new one that has the name of the user',
      success: 400,
      async prepare() {
        const { email, from } = await newUser()
        const body = { email, currentPassword: PASSWORD, newPassword: 'test user 1' }
        return { email, run: () => post('/password', { from, body }) }
      },
    },
    {
      title: 'GET /login that issues a code',
      success: 200,
      async prepare() {
        const { email, issue } = await newCode()
        return { email, run: issue }
      },
    },
    {
      title: 'POST /code',
      success: 200,
      async prepare() {
        const { email, userId, verifier, issue } = await newCode()
        const code = new URL(refreshIn(await issue()) ?? '').searchParams.get('code')
        const run = () => post('/code', { body: { code, verifier } })
        return { email, run, isDone: isOpened(userId, 1) }
      },
    },
  ]
}
