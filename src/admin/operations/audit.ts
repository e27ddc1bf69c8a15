// The record of what administrators have changed.
import type { AuditEvent } from '../../domain/audit.ts'
import type { AdminDeps } from './deps.ts'

const BATCH = 1_000

export type AuditQuery = {
  /** Null: events of all targets. */
  target: string | null
  /** Events before this moment are left out; null: none are. */
  since: Date | null
  /** Continues before the event with this id; null: starts with the newest. */
  beforeId: number | null
  limit: number
}

/** Newest first, in batches. */
export async function* listAudit(
  { store }: AdminDeps,
  { target, since, beforeId, limit }: AuditQuery,
): AsyncGenerator<AuditEvent[]> {
  for (let left = limit, before = beforeId; left > 0; ) {
    const size = Math.min(left, BATCH)
    const batch = await store.listAuditEvents(target, { beforeId: before, limit: size })
    const wanted = batch.filter(({ at }) => since === null || at >= since)
    yield wanted
    const last = batch.at(-1)
    // Older events follow: their ids and times have the same order.
    if (!last || wanted.length < size) return
    left -= size
    before = last.id
  }
}
