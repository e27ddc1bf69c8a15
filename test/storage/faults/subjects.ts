// Users with a session for requests and commands, and looks at what is stored of them.
import { randomUUID } from 'node:crypto'
import bcrypt from 'bcrypt'
import { loadConfig } from '../../../src/config/config.ts'
import type { Store } from '../../../src/domain/store.ts'
import type { User } from '../../../src/domain/user.ts'
import { limitsOf } from '../../../src/login/scopes.ts'
import { digestOf } from '../../../src/system/identifiers.ts'
import { PASSWORD, TEST_COST } from '../../support/service.ts'
import { DAY_MS } from '../../support/session-client.ts'
import { eventsOf, insertTestUser, makeScopes, NOTHING_DISPLACED } from '../fixtures.ts'

export const NEW_PASSWORD = 'seven green boats at noon'
/** Those of a service without settings. */
export const { budgets: BUDGETS } = loadConfig({ NODE_ENV: 'test' })
export const LIMITS = limitsOf(BUDGETS)
const PASSWORD_HASH = bcrypt.hashSync(PASSWORD, TEST_COST)

export const matches = (password: string) => (user: User) =>
  bcrypt.compareSync(password, user.passwordHash)

export type Subjects = ReturnType<typeof createSubjects>

export function createSubjects(store: Store, now = () => new Date()) {
  /** Also opens a device. Both end a day later. */
  async function newUser(openedAt = now()) {
    const [sessionId, deviceId, tokenId] = [randomUUID(), randomUUID(), randomUUID()]
    const email = `${sessionId}@example.com`
    const scopes = makeScopes(email)
    const expiresAt = new Date(openedAt.getTime() + DAY_MS)
    const id = await insertTestUser(store, email, now(), PASSWORD_HASH)
    await store.attempts.reserve(scopes, email, openedAt)
    const opening = {
      user: { id, passwordHash: PASSWORD_HASH, factorsVersion: 0 },
      session: {
        id: sessionId,
        amr: ['pwd'],
        expiresAt,
        cookieDigest: null,
        userAgent: '',
        ip: '::1',
      },
      refreshToken: { id: tokenId, digest: tokenId, keyId: 'k', issuedAt: openedAt, expiresAt },
      device: { kind: 'new', id: deviceId, digest: digestOf(deviceId), expiresAt },
      displaced: NOTHING_DISPLACED,
    } as const
    await store.attempts.succeed(opening, scopes, openedAt)
    return { id, email, sessionId }
  }

  return {
    ...{ store, now, newUser },
    countLive: (userId: string) => store.sessions.countLive(userId, now()),
    isLive: async (sessionId: string, at = now()) =>
      (await store.sessions.findLive(sessionId, at)).kind === 'live',
    async hasUser(email: string, isAsExpected: (user: User) => boolean) {
      const user = await store.users.findByEmail(email)
      return user !== null && isAsExpected(user)
    },
    countEvents: async (target: string, action: string) =>
      (await eventsOf(store, target, 100)).filter(event => event.action === action).length,
  }
}
