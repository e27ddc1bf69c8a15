// Users, logins and effects for the operations of both APIs, and what must be true after each request.
import bcrypt from 'bcrypt'
import { decodeJwt } from 'jose'
import { loadConfig } from '../../../src/config/config.ts'
import type { Reservation, ThrottleScope } from '../../../src/domain/attempt.ts'
import type { AuditAction } from '../../../src/domain/audit.ts'
import { isLockedByAdministrator, type User } from '../../../src/domain/user.ts'
import { limitsOf } from '../../../src/login/scopes.ts'
import { digestOf } from '../../../src/system/identifiers.ts'
import type { AdminService } from '../../support/admin-service.ts'
import { type Answer, type Call, createAddresses, PASSWORD } from '../../support/service.ts'
import { cookieIn, DEVICE_COOKIE, SESSION_COOKIE } from '../../support/session-client.ts'
import { type Performed, STATEMENT } from './faults.ts'
import { findBroken } from './invariants.ts'
import type { Judge, Operation } from './loop.ts'

export const NEW_PASSWORD = 'seven green boats at noon'
/** Those of a service without settings. */
export const { budgets: BUDGETS } = loadConfig({ NODE_ENV: 'test' })
export const LIMITS = limitsOf(BUDGETS)
const INTERNAL_ERROR =
  '{"success":false,"error":{"code":"INTERNAL_ERROR","message":"An unexpected error occurred. Please try again later."}}'
const NOT_READY = 'not ready\n'
const NO_METRICS = 'a metric cannot be read: see metrics.failed in the log\n'

export type Response = Pick<Answer, 'status' | 'text'>
export type Request = Operation<Response> & { success: number }
export type Requests = ReturnType<typeof createRequests>

/** What requests need: users of their own, sessions of these, and looks at what is stored. */
export function createRequests(service: AdminService) {
  const { store, now } = service
  const newAddress = createAddresses()
  let users = 0

  async function newUser(cost?: number) {
    const email = `user${++users}@example.com`
    const passwordHash = cost && (await bcrypt.hash(PASSWORD, cost))
    const userId = await service.addUser(email, passwordHash ? { passwordHash } : {})
    return { email, userId, from: newAddress() }
  }

  async function logIn(
    email: string,
    headers: Call['headers'] = { 'Sec-Fetch-Site': 'same-origin' },
  ) {
    const body = { email, password: PASSWORD }
    const answer = await service.call({ headers, body, from: newAddress() })
    if (answer.status !== 200) throw new Error(`no login: ${answer.text}`)
    const { accessToken, refreshToken } = answer.json.data
    return {
      accessToken,
      refreshToken,
      sessionId: String(decodeJwt(accessToken).sid),
      cookie: cookieIn(answer, SESSION_COOKIE),
      device: cookieIn(answer, DEVICE_COOKIE),
      csrf: String(answer.headers['x-csrf-token']),
    }
  }

  async function newSession() {
    const user = await newUser()
    return { ...user, ...(await logIn(user.email)) }
  }

  const isLive = async (sessionId: string) =>
    (await store.sessions.findLive(sessionId, now())).kind === 'live'

  async function countLive(userId: string): Promise<number> {
    return store.sessions.countLive(userId, now())
  }

  /** A login's session is stored with its refresh token; after a failure, any further session is. */
  function isOpened(userId: string, sessionsBefore = 0) {
    return async ({ status, text }: Response) => {
      if (status !== 200) return (await countLive(userId)) > sessionsBefore
      const { accessToken, refreshToken } = JSON.parse(text).data
      const { jti = '' } = decodeJwt(refreshToken)
      const token = await store.refreshTokens.find(jti, digestOf(refreshToken), now())
      return (await isLive(String(decodeJwt(accessToken).sid))) && token.kind === 'found'
    }
  }

  /** Counts the events of a change that share its transaction. */
  function eventsOf(target: string, ...actions: AuditAction[]) {
    return async () => {
      const page = { since: null, beforeId: null, limit: 100 }
      const { events } = await store.audit.list(target, page)
      return events.filter(({ action }) => actions.includes(action)).length
    }
  }

  const find = (email: string) => store.users.findByEmail(email)
  const hasUser = (email: string, isAsExpected: (user: User) => boolean) => async () => {
    const user = await find(email)
    return user !== null && isAsExpected(user)
  }
  return {
    ...{ service, newAddress, newUser, newSession, logIn, isLive, countLive, isOpened, eventsOf },
    ...{ find, hasUser },
  }
}

export const matches = (password: string) => (user: User) =>
  bcrypt.compareSync(password, user.passwordHash)

/** Judges the answers of a service, its tables, and its next requests. */
export function judgeRequests({ service, find, newAddress }: Requests): Judge<Response> {
  async function findWrongLogin(email: string): Promise<string[]> {
    const user = await find(email)
    const password = [PASSWORD, NEW_PASSWORD].find(known => user && matches(known)(user))
    // A generated password is known to its caller only.
    if (user && !password) return []
    const isRefused = !user?.isActive || isLockedByAdministrator(user, service.now())
    const expected = isRefused ? 401 : user.temporaryUntil ? 403 : 200
    const { status } = await service.login(email, password ?? PASSWORD, newAddress())
    return status === expected ? [] : [`the next login gets ${status} instead of ${expected}`]
  }

  return {
    isSuccess: ({ status }, operation) => status === (operation as Request).success,
    findWrongFailure: ({ status, text }) =>
      (status === 500 && [INTERNAL_ERROR, NO_METRICS].includes(text)) ||
      (status === 503 && text === NOT_READY)
        ? null
        : `the answer ${status} ${text}`,
    async findProblems({ email, run }, { performed, hits }) {
      const { database, now } = service
      // An operation whose statement failed may have taken effect in part.
      const isKnown = !hits.includes(STATEMENT)
      const problems = isKnown ? await findWrongCounters(service, performed) : []
      problems.push(...(await findBroken(database, now())))
      const { status, text } = await run()
      if (status >= 500) problems.push(`the same request again gets ${status} ${text}`)
      if (email !== null) problems.push(...(await findWrongLogin(email)))
      return problems
    },
  }
}

/** Every scope of the attempts has as many pending ones and failures as the operations that took effect left. */
async function findWrongCounters({ database }: AdminService, performed: Performed[]) {
  const expected = new Map<string, { pending: number; failures: number }>()
  for (const { name, values, result } of performed) {
    const [part, settled] = name.split('.')
    if (part !== 'attempts') continue
    // The opening of a session comes before the scopes.
    const scopes = values[settled === 'succeed' ? 1 : 0] as ThrottleScope[]
    for (const { key } of scopes) {
      const counted = expected.get(key) ?? { pending: 0, failures: 0 }
      if (settled !== 'reserve') counted.pending--
      else if ((result as Reservation).kind === 'admitted') counted.pending++
      else return []
      if (settled === 'fail') counted.failures++
      expected.set(key, counted)
    }
  }
  if (expected.size === 0) return []
  const keys = [...expected.keys()].map(key => `'${key}'`).join(', ')
  const rows = await database.rows(`select * from login_throttle where key in (${keys})`)
  return [...expected].flatMap(([key, { pending, failures }]) => {
    const row = rows.find(row => row.key === key)
    const isRight = Number(row?.pending) === pending && Number(row?.failures) === failures
    return isRight
      ? []
      : [
          `${row?.scope}: ${row?.pending} pending, ${row?.failures} failures, not ${pending}, ${failures}`,
        ]
  })
}
