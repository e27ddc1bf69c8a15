// The feed of ended sessions: services that verify access tokens poll it to refuse the tokens of these sessions.
// The database is read once a second at most, for all callers, and only while there are callers.
import { ENDED_LISTED_SECONDS } from '../domain/lifetimes.ts'
import type { SessionEnd, SessionStore } from '../domain/session.ts'

const LISTED_MS = ENDED_LISTED_SECONDS * 1000
const READ_EVERY_MS = 1_000
const PAGE_ROWS = 10_000
/**
 * An end may become visible this long after its time: a command has 60 s to commit it, and the clock that wrote it may
 * differ by up to 60 s, or its instance would not be ready.
 */
const LATE_MS = 120_000
/** An answer repeats the ends that were seen this long before `after`: reads and clocks of instances differ. */
const REPEATED_MS = 10_000
/** Less than the repeated time: after a clock was set back further, a cursor is refused until its caller starts again. */
const AHEAD_MS = 5_000

/** `seenMs`: when this instance could have seen the end for the first time, and has told it to callers since. */
type Listed = { id: string; endedMs: number; seenMs: number }

export type EndedFeed = ReturnType<typeof createEndedFeed>

export function createEndedFeed(store: Pick<SessionStore, 'listEnded'>, clock: () => Date) {
  const listed = new Map<string, Listed>()
  /** The same in the order in which they were seen. */
  let snapshot: Listed[] = []
  /** The start of the last read that succeeded. */
  let readMs = Number.NEGATIVE_INFINITY
  let reading = { startMs: Number.NEGATIVE_INFINITY, isDone: true, result: Promise.resolve() }

  /** Callers share a read for a second, also one that fails. */
  function readIfDue(): Promise<void> {
    const startMs = clock().getTime()
    const isDue = Math.abs(startMs - reading.startMs) >= READ_EVERY_MS
    if (!reading.isDone || !isDue) return reading.result
    const started = { startMs, isDone: false, result: read(startMs) }
    const end = () => {
      started.isDone = true
    }
    started.result.then(end, end)
    reading = started
    return started.result
  }

  async function read(nowMs: number): Promise<void> {
    // The clock was set back. The times of the entries mean nothing now.
    if (nowMs < readMs) {
      listed.clear()
      readMs = Number.NEGATIVE_INFINITY
    }
    const ended = await listFrom(new Date(Math.max(nowMs - LISTED_MS, readMs - LATE_MS)))
    for (const { id, endedAt } of ended) {
      const endedMs = endedAt.getTime()
      const seenMs = Math.min(nowMs, endedMs + LATE_MS)
      if (!listed.has(id)) listed.set(id, { id, endedMs, seenMs })
    }
    for (const { id, endedMs } of listed.values()) {
      if (endedMs <= nowMs - LISTED_MS) listed.delete(id)
    }
    snapshot = [...listed.values()].sort((one, other) => one.seenMs - other.seenMs)
    readMs = nowMs
  }

  async function listFrom(endedAt: Date): Promise<SessionEnd[]> {
    const ended: SessionEnd[] = []
    let from: Parameters<SessionStore['listEnded']>[0] = { endedAt }
    for (;;) {
      const page = await store.listEnded(from, PAGE_ROWS)
      ended.push(...page)
      const last = page.at(-1)
      if (!last || page.length < PAGE_ROWS) return ended
      from = last
    }
  }

  return {
    /**
     * The ids of ended sessions that a caller with the cursor `afterMs` may not know, and its next cursor; all of them
     * for a caller without a cursor. Null for a cursor that no instance can have given.
     */
    async list(afterMs: number | null): Promise<{ ids: string[]; nextMs: number } | null> {
      await readIfDue()
      const fromMs = afterMs ?? 0
      if (fromMs > readMs + AHEAD_MS) return null
      const known = snapshot.findLastIndex(({ seenMs }) => seenMs <= fromMs - REPEATED_MS)
      const ids = snapshot.slice(known + 1).map(({ id }) => id)
      // It stays the same while no session ends, and so does the whole answer.
      return { ids, nextMs: Math.max(fromMs, snapshot.at(-1)?.seenMs ?? 0) }
    },
  }
}
