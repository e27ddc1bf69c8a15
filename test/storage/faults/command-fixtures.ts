// Users and audit events for the commands that are proven.
import { randomUUID } from 'node:crypto'
import type { AuditAction } from '../../../src/domain/audit.ts'
import type { Store } from '../../../src/domain/store.ts'
import type { User } from '../../../src/domain/user.ts'
import { digestOf } from '../../../src/system/identifiers.ts'
import { DAY_MS } from '../../support/session-client.ts'
import { insertTestUser, makeScopes, NOTHING_DISPLACED } from '../fixtures.ts'
import type { Commands, Ended } from './commands.ts'
import type { Operation } from './loop.ts'

export type Fixtures = ReturnType<typeof createFixtures>

export function createFixtures({ run }: Commands, store: Store) {
  /** With a session and a device, which were opened at this time and end a day later. */
  async function newUser(openedAt = new Date()) {
    const [sessionId, deviceId, tokenId] = [randomUUID(), randomUUID(), randomUUID()]
    const email = `${sessionId}@example.com`
    const scopes = makeScopes(email)
    const expiresAt = new Date(openedAt.getTime() + DAY_MS)
    const id = await insertTestUser(store, email, new Date())
    await store.attempts.reserve(scopes, email, openedAt)
    const opening = {
      user: { id, passwordHash: 'a hash' },
      session: { id: sessionId, expiresAt, cookieDigest: null, userAgent: '', ip: '::1' },
      refreshToken: { id: tokenId, digest: tokenId, keyId: 'k', issuedAt: openedAt, expiresAt },
      device: { kind: 'new', id: deviceId, digest: digestOf(deviceId), expiresAt },
      displaced: NOTHING_DISPLACED,
    } as const
    await store.attempts.succeed(opening, scopes, openedAt)
    return { id, email, sessionId, deviceId }
  }

  const countEvents = (target: string, action: AuditAction) => async () => {
    const page = { since: null, beforeId: null, limit: 100 }
    const { events } = await store.audit.list(target, page)
    return events.filter(event => event.action === action).length
  }

  const countLive = (id: string) => store.sessions.countLive(id, new Date())

  /** A command about a user that has a session. */
  const change = (
    args: string[],
    action: AuditAction,
    isChanged: (user: User) => boolean | Promise<boolean>,
    how: {
      input?: string
      before?: (user: { id: string; email: string }) => Promise<unknown>
    } = {},
  ): Operation<Ended> => ({
    title: args.join(' '),
    async prepare() {
      const { id, email } = await newUser()
      await how.before?.({ id, email })
      const named = args.map(arg => (arg === 'EMAIL' ? email : arg))
      return {
        email,
        run: () => run(named, how.input),
        async isDone() {
          const user = await store.users.findById(id)
          return user !== null && (await isChanged(user))
        },
        countEvents: countEvents(email, action),
      }
    },
  })

  return { newUser, countEvents, countLive, change }
}
