// What is stored about a user, for a person that asks for it. The hash of the password and digests of tokens are left out.
import type { User } from '../../domain/user.ts'
import { userNotFound } from '../failures.ts'
import { type AdminDeps, changeNow } from './deps.ts'
import { explainUser } from './explain-user.ts'
import { toPage } from './pages.ts'

type Owner = Pick<User, 'id' | 'email'>

/** Before the data leave. The event names the user by the id alone, which a deletion may leave behind. */
export async function recordExport(deps: AdminDeps, { id }: Owner): Promise<void> {
  const event = { action: 'user.exported', target: id, targetId: id } as const
  await deps.store.audit.record(changeNow(deps), [event])
}

/** Everything except the two long lists. */
export async function summarizeUser(deps: AdminDeps, { id, email }: Owner) {
  const { user: explained, throttle } = await explainUser(deps, email, null)
  if (explained?.id !== id) throw userNotFound(email)
  const { hashCost: _, liveSessions: __, lastLoginAt: ___, devices, ...user } = explained
  const lastLogin = await deps.store.sessions.findLastLogin(id)
  return { user, lastLogin, devices, throttle }
}

export async function listStoredSessions(
  { store }: AdminDeps,
  { id }: Owner,
  afterId: string | null,
  limit: number,
) {
  return toPage(await store.sessions.listStored(id, { afterId, limit }), limit)
}

/** Without the actor: an administrator's name is not data about the user. */
export async function listEventsOf(
  { store }: AdminDeps,
  user: Owner,
  beforeId: number | null,
  limit: number,
) {
  const events = await store.audit.listOfUser(user, { beforeId, limit })
  return toPage(
    events.map(({ by: _, ...event }) => event),
    limit,
  )
}
