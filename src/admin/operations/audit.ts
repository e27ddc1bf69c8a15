// The record of what administrators have changed.
import type { AuditEvent, AuditPage, ListedEvents } from '../../domain/audit.ts'
import type { AdminDeps } from './deps.ts'

const BATCH = 1_000

/** All pages, until `limit` events were listed. */
export async function* allEvents(
  { store }: AdminDeps,
  target: string | null,
  { since, limit }: Pick<AuditPage, 'since' | 'limit'>,
): AsyncGenerator<AuditEvent[]> {
  let beforeId: number | null = null
  let left = limit
  do {
    const page = { since, beforeId, limit: Math.min(left, BATCH) }
    const { events, next }: ListedEvents = await store.audit.list(target, page)
    yield events
    left -= events.length
    beforeId = next
  } while (left > 0 && beforeId !== null)
}
