// What is stored about a user, for a person that asks for it. The hash of the password, the secrets of
// second factors, and digests of tokens and recovery codes are left out.
import type { AuditEvent } from '../../domain/audit.ts'
import type { StoredSession, StoredToken } from '../../domain/session.ts'
import { named, whole } from '../../http/openapi/operation.ts'
import {
  DEVICE_WITH_FAILURES,
  EVENT_OF_USER,
  LAST_LOGIN,
  listOf,
  PAGE_MAX,
  RECOVERY_CODE,
  SECOND_FACTOR,
  SHOWN_USER,
  STORED_SESSION,
  STORED_TOKEN,
  THROTTLE,
} from '../api/schemas.ts'
import { JsonText } from '../layout.ts'
import { operation } from '../operation.ts'
import { changeNow } from './deps.ts'
import { listDevices } from './explain-user.ts'
import { showThrottle } from './read-throttle.ts'
import { findUser, toShownUser } from './user.ts'

export const getUserData = operation(
  {
    command: 'users export-data',
    event: 'admin.user_data_exported',
    request: 'GET /users/:user/data',
    summary: 'Show everything that is stored about a user',
    description:
      'For a person that asks for it: also ended sessions, refreshes and audit events. The hash of the password and the secrets of second factors are left out.',
    examples: ['ann@example.org > ann.json'],
    // It may be of any length.
    for: null,
    data: named(
      'UserData',
      whole({
        user: SHOWN_USER,
        lastLogin: LAST_LOGIN,
        devices: listOf(DEVICE_WITH_FAILURES),
        secondFactors: listOf(SECOND_FACTOR),
        recoveryCodes: listOf(RECOVERY_CODE),
        throttle: THROTTLE,
        sessions: listOf(STORED_SESSION),
        refreshTokens: listOf(STORED_TOKEN),
        auditEvents: listOf(EVENT_OF_USER),
      }),
    ),
    isLogged: true,
  },
  async (deps, { named }) => {
    const { store } = deps
    const found = await findUser(deps, named)
    const { id, email } = found
    // Recorded before the data leave. The event names the user by the id alone, which a deletion may leave behind.
    const exported = { action: 'user.exported', target: id, targetId: id } as const
    await store.audit.record(changeNow(deps), [exported])
    const now = deps.clock()
    const user = toShownUser(found, now)
    const throttle = await showThrottle(deps, { email, client: null }, now)
    const devices = await listDevices(deps, found, now)
    const factors = {
      secondFactors: (await store.secondFactors.list(id)).factors,
      recoveryCodes: await store.secondFactors.listRecoveryCodes(id),
    }
    const lastLogin = await store.sessions.findLastLogin(id)
    const sessions = batches((last: StoredSession | null) =>
      store.sessions.listStored(id, { afterId: last?.id ?? null, limit: PAGE_MAX }),
    )
    const refreshTokens = batches((last: StoredToken | null) =>
      store.sessions.listTokens(id, last, PAGE_MAX),
    )
    const auditEvents = batches(async (last: Omit<AuditEvent, 'by'> | null) => {
      const page = { beforeId: last?.id ?? null, limit: PAGE_MAX }
      // Without the actor: an administrator's name is not data about the user.
      return (await store.audit.listOfUser(found, page)).map(({ by: _, ...event }) => event)
    })
    const lists = { sessions, refreshTokens, auditEvents }
    return {
      data: await JsonText.of({ user, lastLogin, devices, ...factors, throttle, ...lists }),
      said: { facts: { email }, sentence: `Exported what is stored about ${email}.` },
    }
  },
)

/** Page by page, so that others get their turn. */
async function* batches<T>(readAfter: (last: T | null) => Promise<T[]>): AsyncGenerator<T[]> {
  for (let page: T[] | null = null; page === null || page.length === PAGE_MAX; ) {
    page = await readAfter(page?.at(-1) ?? null)
    yield page
  }
}
