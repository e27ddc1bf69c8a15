// Requests to both APIs by users with logins of their own, and what must be true after each request.
import bcrypt from 'bcrypt'
import { decodeJwt } from 'jose'
import type { Reservation, ThrottleScope } from '../../../src/domain/attempt.ts'
import { isLockedByAdministrator } from '../../../src/domain/user.ts'
import { digestOf } from '../../../src/system/identifiers.ts'
import type { AdminService } from '../../support/admin-service.ts'
import { type Answer, createAddresses, PASSWORD } from '../../support/service.ts'
import { loginIn } from '../../support/session-client.ts'
import { type Met, STATEMENT } from './faults.ts'
import { findBroken } from './invariants.ts'
import type { Judge } from './loop.ts'
import { createSubjects, matches, NEW_PASSWORD } from './subjects.ts'

export const INTERNAL_ERROR =
  '{"success":false,"error":{"code":"INTERNAL_ERROR","message":"An unexpected error occurred. Please try again later."}}'
const NOT_READY = 'not ready\n'
const NO_METRICS = 'a metric cannot be read: see metrics.failed in the log\n'

export type Response = Pick<Answer, 'status' | 'text'>
export type Requests = ReturnType<typeof createRequests>

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

  async function logIn(email: string) {
    const headers = { 'Sec-Fetch-Site': 'same-origin' }
    const body = { email, password: PASSWORD }
    return loginIn(await service.call({ headers, body, from: newAddress() }))
  }

  async function newSession() {
    const user = await newUser()
    return { ...user, ...(await logIn(user.email)) }
  }

  const subjects = createSubjects(store, now)

  /** A login's session is stored with its refresh token; after a failure, any further session is. */
  function isOpened(userId: string, sessionsBefore = 0) {
    return async ({ status, text }: Response) => {
      if (status !== 200) return (await subjects.countLive(userId)) > sessionsBefore
      const { accessToken, refreshToken } = JSON.parse(text).data
      const { jti = '' } = decodeJwt(refreshToken)
      const token = await store.refreshTokens.find(jti, digestOf(refreshToken), now())
      const isLive = await subjects.isLive(String(decodeJwt(accessToken).sid))
      return isLive && token.kind === 'found'
    }
  }
  return { service, subjects, newAddress, newUser, newSession, logIn, isOpened }
}

/** Judges the answers of a service, its tables, and its next requests. */
export function judgeRequests({ service, newAddress }: Requests): Judge<Response> {
  const { store, database, now } = service

  async function findWrongLogin(email: string): Promise<string[]> {
    const user = await store.users.findByEmail(email)
    const password = [PASSWORD, NEW_PASSWORD].find(known => user && matches(known)(user))
    // A generated password is known to its caller only.
    if (user && !password) return []
    const isRefused = !user?.isActive || isLockedByAdministrator(user, now())
    const expected = isRefused ? 401 : user.temporaryUntil ? 403 : 200
    const { status } = await service.login(email, password ?? PASSWORD, newAddress())
    return status === expected ? [] : [`the next login gets ${status} instead of ${expected}`]
  }

  return {
    isSuccess: ({ status }, { success = 200 }) => status === success,
    findWrongFailure: ({ status, text }) =>
      (status === 500 && [INTERNAL_ERROR, NO_METRICS].includes(text)) ||
      (status === 503 && text === NOT_READY)
        ? null
        : `the answer ${status} ${text}`,
    async findProblems({ email, run }, met) {
      const problems = await findWrongCounters(service, met)
      problems.push(...(await findBroken(database, now())))
      const { status, text } = await run()
      if (status >= 500) problems.push(`the same request again gets ${status} ${text}`)
      if (email !== undefined) problems.push(...(await findWrongLogin(email)))
      return problems
    },
  }
}

/** Every scope of the attempts has as many pending ones and failures as the operations that took effect left. */
async function findWrongCounters({ database }: AdminService, { performed, hits }: Met) {
  // An operation whose statement failed may have taken effect in part.
  if (hits.includes(STATEMENT)) return []
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
    const counted = `${row?.scope}: ${row?.pending} pending, ${row?.failures} failures`
    const isRight = Number(row?.pending) === pending && Number(row?.failures) === failures
    return isRight ? [] : [`${counted}, not ${pending}, ${failures}`]
  })
}
