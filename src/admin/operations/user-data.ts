// What is stored about a user, for a person that asks for it. The hash of the password and digests of tokens are left out.
import type { AuditEvent } from '../../domain/audit.ts'
import type { StoredSession } from '../../domain/session.ts'
import type { User } from '../../domain/user.ts'
import { userNotFound } from '../failures.ts'
import { type AdminDeps, changeNow } from './deps.ts'
import { explainUser } from './explain-user.ts'
import type { ThrottleDeps } from './throttle.ts'

/** Without the actor: an administrator's name is not data about the user. */
type ShownEvent = Omit<AuditEvent, 'by'>
type Owner = Pick<User, 'id' | 'email'>

/** Before the data leave. The event names the user by the id alone, which a deletion may leave behind. */
export async function recordExport(deps: AdminDeps, { id }: Owner): Promise<void> {
  const event = { action: 'user.exported', target: id, targetId: id } as const
  await deps.store.audit.record(changeNow(deps), [event])
}

/** Everything except the two long lists. */
export async function summarizeUser(deps: ThrottleDeps, { id, email }: Owner) {
  const { user: explained, throttle } = await explainUser(deps, email, null)
  if (explained?.id !== id) throw userNotFound(email)
  const { hashCost: _, liveSessions: __, lastLoginAt: ___, devices, ...user } = explained
  const lastLogin = await deps.store.sessions.readLastLogin(id)
  return { user, lastLogin, devices, throttle }
}

/** A page of a list; `next` is the position of the next one, null at the end. */
type ListPage<T, Position> = { items: T[]; next: Position | null }

export async function listStoredSessions(
  { store }: ThrottleDeps,
  { id }: Owner,
  afterId: string | null,
  limit: number,
): Promise<ListPage<StoredSession, string>> {
  const items = await store.sessions.listStored(id, { afterId, limit })
  return { items, next: items.length < limit ? null : (items.at(-1)?.id ?? null) }
}

export async function listEventsOf(
  { store }: ThrottleDeps,
  user: Owner,
  beforeId: number | null,
  limit: number,
): Promise<ListPage<ShownEvent, number>> {
  const events = await store.audit.listOfUser(user, { beforeId, limit })
  const next = events.length < limit ? null : (events.at(-1)?.id ?? null)
  return { items: events.map(({ by: _, ...event }) => event), next }
}
