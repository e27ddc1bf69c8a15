// The feed of ended sessions: services that verify access tokens poll it to refuse the tokens of these sessions.
// The database is read once a second at most, for all callers, and only while there are callers. The ids are kept as
// blocks of JSON, of which all answers consist: memory and work do not depend on what callers ask for.
import { ENDED_LISTED_SECONDS } from '../domain/lifetimes.ts'
import type { SessionEnd, SessionStore } from '../domain/session.ts'
import { digestOf } from '../system/identifiers.ts'

const LISTED_MS = ENDED_LISTED_SECONDS * 1000
const READ_EVERY_MS = 1_000
const READ_ROWS = 10_000
const PAGE_IDS = 10_000
const BLOCK_IDS = 1_000
const BLOCK_MS = 10_000
/**
 * An end may become visible this long after its time: a command has 60 s to commit it, and the clock that wrote it may
 * differ by up to 60 s, or its instance would not be ready.
 */
const LATE_MS = 120_000
/** An answer repeats what was seen this long before the cursor: the clocks of instances differ. */
const REPEATED_MS = 10_000
/** Less than the repeated time: after a clock was set back further, a cursor is refused until its caller starts again. */
const AHEAD_MS = 5_000

/**
 * Sessions that ended within the same 10 seconds, in the order of their ends. This order is the same at all instances, so
 * a caller can get the next page from another one.
 */
type OpenBlock = { startMs: number; last: SessionEnd; ids: string[] }
type Block = ReturnType<typeof toBlock> & {
  /** When callers could be told for the first time, at the latest. */
  seenMs: number
}

/**
 * The caller knows the ends that were visible at `seenMs`. `last` is the last end of its page if there are more pages. Then
 * `seenMs` is the time of the first page: while it reads, ends may become visible before `last`.
 */
export type Cursor = { seenMs: number; last: SessionEnd | null }

export type EndedFeed = ReturnType<typeof createEndedFeed>

type FeedStore = Pick<SessionStore, 'hasMoreEnded' | 'listEnded'>

export function createEndedFeed(store: FeedStore, clock: () => Date) {
  let blocks: Block[] = []
  /** The start of the last read that found a new end. */
  let changedMs = 0
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
    // The clock was set back. The times of the blocks mean nothing now.
    if (nowMs < readMs) {
      blocks = []
      readMs = Number.NEGATIVE_INFINITY
    }
    const listedFromMs = toBlockStart(nowMs - LISTED_MS)
    const lateFromMs = Math.max(listedFromMs, toBlockStart(readMs - LATE_MS))
    const newFromMs = Math.max(listedFromMs, toBlockStart(readMs - BLOCK_MS))
    // Most ends are visible at once. Earlier ones are listed again only if there are more than before.
    const known = between(lateFromMs, newFromMs).reduce((sum, { count }) => sum + count, 0)
    const [lateFrom, newFrom] = [new Date(lateFromMs), new Date(newFromMs)]
    const hasLate = await store.hasMoreEnded(known, lateFrom, newFrom)
    const fromMs = hasLate ? lateFromMs : newFromMs
    const found = await readBlocks(fromMs)
    const endMs = clock().getTime()
    const earlier = new Map(blocks.map(block => [block.digest, block]))
    if (found.some(({ digest }) => !earlier.has(digest))) changedMs = nowMs
    const added = found.map(block => {
      const seenMs = Math.min(endMs, block.startMs + BLOCK_MS + LATE_MS)
      return earlier.get(block.digest) ?? { ...block, seenMs }
    })
    blocks = [...between(listedFromMs, fromMs), ...added]
    readMs = nowMs
  }

  const between = (fromMs: number, beforeMs: number) =>
    blocks.filter(({ startMs }) => startMs >= fromMs && startMs < beforeMs)

  async function readBlocks(fromMs: number) {
    const found: ReturnType<typeof toBlock>[] = []
    let open: OpenBlock | undefined
    let from: Parameters<SessionStore['listEnded']>[0] = { endedAt: new Date(fromMs) }
    let rows: SessionEnd[]
    do {
      rows = await store.listEnded(from, READ_ROWS)
      for (const end of rows) {
        // The first row is the last one of the statement before.
        if (end.id === from.id) continue
        const startMs = toBlockStart(end.endedAt.getTime())
        if (open?.startMs !== startMs || open.ids.length === BLOCK_IDS) {
          if (open) found.push(toBlock(open))
          open = { startMs, last: end, ids: [] }
        }
        open.ids.push(end.id)
        open.last = end
      }
      from = rows.at(-1) ?? from
    } while (rows.length === READ_ROWS)
    if (open) found.push(toBlock(open))
    return found
  }

  return {
    /**
     * The blocks that a caller with this cursor may not know, at most a page of them, and its next cursor. For a caller
     * without a cursor, these are the first of all blocks. Null for a cursor that no instance can have given.
     */
    async list({ seenMs, last }: Cursor = { seenMs: 0, last: null }) {
      await readIfDue()
      if (seenMs > readMs + AHEAD_MS) return null
      const unknown = blocks.filter(block =>
        last ? isAfter(block.last, last) : block.seenMs > seenMs - REPEATED_MS,
      )
      const page: Block[] = []
      let ids = 0
      for (const block of unknown) {
        ids += block.count
        if (ids <= PAGE_IDS) page.push(block)
      }
      // It stays the same while no session ends, and so does the whole answer.
      const next: Cursor = { seenMs: last ? seenMs : Math.max(seenMs, changedMs), last: null }
      if (page.length < unknown.length) next.last = page.at(-1)?.last ?? null
      return { page, next }
    },
  }
}

function toBlock({ startMs, last, ids }: OpenBlock) {
  // A comma before each id joins blocks.
  const json = ids.map(id => `,"${id}"`).join('')
  return { startMs, last, count: ids.length, json: Buffer.from(json), digest: digestOf(json) }
}

function toBlockStart(ms: number): number {
  return Math.floor(ms / BLOCK_MS) * BLOCK_MS
}

function isAfter(one: SessionEnd, other: SessionEnd): boolean {
  const laterMs = one.endedAt.getTime() - other.endedAt.getTime()
  return laterMs > 0 || (laterMs === 0 && one.id > other.id)
}
