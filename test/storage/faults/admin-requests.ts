// Every operation of the admin API.
import type { AuditAction } from '../../../src/domain/audit.ts'
import { isLockedByAdministrator, type User } from '../../../src/domain/user.ts'
import { digestOf } from '../../../src/system/identifiers.ts'
import { changeAt } from '../fixtures.ts'
import type { Case } from './loop.ts'
import {
  LIMITS,
  matches,
  NEW_PASSWORD,
  type Request,
  type Requests,
  type Response,
} from './requests.ts'

export function adminRequests(requests: Requests): Request[] {
  const { service, newUser, newSession, newAddress, isLive, countLive, eventsOf, hasUser } =
    requests
  const { store, now } = service
  const isLocked = (user: User) => isLockedByAdministrator(user, now())
  /** From another address each time: reads of the audit are recorded once per address. */
  const ask = (method: string, path: string, body?: object) => () =>
    service.admin(method, path, body, { from: newAddress() })

  /** A request about a user that has a session. */
  const about = (
    method: string,
    path: string,
    how: {
      body?: object
      change?: { action: AuditAction; isDone: (user: User) => boolean | Promise<boolean> }
      before?: (userId: string) => Promise<unknown>
    } = {},
  ): Request => ({
    title: `${method} /users/:user${path} ${how.body ? JSON.stringify(how.body) : ''}`.trim(),
    success: 200,
    async prepare(): Promise<Case<Response>> {
      const { email, userId } = await newSession()
      await how.before?.(userId)
      const run = ask(method, `/users/${userId}${path}`, how.body)
      const { change } = how
      if (!change) return { email, run }
      const isDone = async () => {
        const user = await store.users.findById(userId)
        return user !== null && (await change.isDone(user))
      }
      return { email, run, isDone, countEvents: eventsOf(email, change.action) }
    },
  })

  async function newFailure() {
    const user = await newUser()
    await service.login(user.email, 'wrong', user.from)
    return user
  }
  const isCleared = (email: string) => async () =>
    (await store.throttle.readOfEmail(digestOf(email), LIMITS, now())).every(
      ({ failures }) => failures === 0,
    )

  const added = (secret: object): Request => ({
    title: `POST /users with ${Object.keys(secret)}`,
    success: 201,
    // The new user is read for the answer.
    isInParts: true,
    async prepare() {
      const email = `added${newAddress()}@example.com`
      const body = { email, name: 'Name', ...secret }
      const run = ask('POST', '/users', body)
      const countEvents = eventsOf(email, 'user.added')
      return { email, run, isDone: hasUser(email, () => true), countEvents }
    },
  })

  return [
    added({ password: NEW_PASSWORD }),
    added({ generate: true }),
    plain('GET', '/users'),
    plain('GET', '/throttle'),
    plain('GET', '/audit'),
    about('GET', ''),
    about('GET', '/data'),
    about('GET', '/sessions'),
    about('PATCH', '', {
      body: { name: 'Another' },
      change: { action: 'user.changed', isDone: user => user.name === 'Another' },
    }),
    {
      isInParts: true,
      ...about('PATCH', '', {
        body: { role: 'editor', isActive: false },
        change: { action: 'user.deactivated', isDone: user => !user.isActive },
      }),
    },
    about('PUT', '/password', {
      body: { password: NEW_PASSWORD },
      change: { action: 'password.set', isDone: matches(NEW_PASSWORD) },
    }),
    about('PUT', '/password', {
      body: { generate: true },
      change: { action: 'password.set', isDone: user => user.temporaryUntil !== null },
    }),
    about('PUT', '/lock', {
      body: {},
      change: { action: 'user.locked', isDone: isLocked },
    }),
    about('DELETE', '/lock', {
      before: id => store.users.lock(id, new Date('9999-01-01'), changeAt(now())),
      change: { action: 'user.unlocked', isDone: user => !isLocked(user) },
    }),
    about('DELETE', '/sessions', {
      change: { action: 'sessions.ended', isDone: async ({ id }) => (await countLive(id)) === 0 },
    }),
    {
      title: 'DELETE /users/:user',
      success: 200,
      isInParts: true,
      async prepare() {
        const { email } = await newSession()
        const isDone = async () => (await requests.find(email)) === null
        return { email, run: ask('DELETE', `/users/${email}`), isDone }
      },
    },
    {
      title: 'DELETE /sessions/:id',
      success: 200,
      async prepare() {
        const { email, sessionId } = await newSession()
        const run = ask('DELETE', `/sessions/${sessionId}`)
        const countEvents = eventsOf(sessionId, 'session.ended')
        return { email, run, isDone: async () => !(await isLive(sessionId)), countEvents }
      },
    },
    {
      title: 'GET /throttle of an email',
      success: 200,
      async prepare() {
        const { email } = await newFailure()
        return { email, run: ask('GET', `/throttle?email=${email}`) }
      },
    },
    {
      title: 'DELETE /throttle of an email',
      success: 200,
      async prepare() {
        const { email } = await newFailure()
        const run = ask('DELETE', `/throttle?email=${email}`)
        const countEvents = eventsOf(email, 'throttle.cleared')
        return { email, run, isDone: isCleared(email), countEvents }
      },
    },
    {
      title: 'DELETE /throttle of a client',
      success: 200,
      async prepare() {
        const { email, from } = await newFailure()
        const run = ask('DELETE', `/throttle?client=${from}`)
        const events = eventsOf(from, 'throttle.cleared')
        return { email, run, isDone: async () => (await events()) > 0, countEvents: events }
      },
    },
  ]

  function plain(method: string, path: string): Request {
    return {
      title: `${method} ${path}`,
      success: 200,
      prepare: async () => ({ email: null, run: ask(method, path) }),
    }
  }
}
