// Counted lines: the first of its kind is written at once, its repetitions as one count per second.
// A client that is refused again and again must not be able to fill the disk.
import type { FastifyBaseLogger } from 'fastify'

const COUNT_EVERY_MS = 1_000
/** Kinds of lines that are counted per client and reason. All others are counted by level, text and event. */
const MAX_STREAMS = 1_000
/** Lines of one stream per second, each with another email or origin. */
const MAX_LINES_PER_SECOND = 10

export type Level = 'info' | 'warn' | 'error'

/** What a line says of its request. It may differ between lines that are counted together. */
type Caller = { requestId: string; ip: string; userAgent: string }

/** Email and origin may differ between lines that are counted together, the other facts may not. */
export type LineFacts = { event: string; email?: string; origin?: string } & Record<string, string>

type Counted = {
  level: Level
  text: string | undefined
  /** The fields of the line with the count. */
  facts: object
  /** Lines since the last count that were not written. */
  leftOut: number
}

/** Lines with the same level, text, event, client and reason. */
type Stream = Counted & {
  /** The emails or origins that were written last. */
  subjects: Set<string>
  /** Lines since the last count that were written. */
  written: number
}

export type CountedLog = ReturnType<typeof createCountedLog>

export function createCountedLog(log: FastifyBaseLogger) {
  const streams = new Map<string, Stream>()
  /** Counts by event, of all clients together. */
  const byEvent = new Map<string, Counted>()
  let timer: NodeJS.Timeout | null = null

  function openStream(key: string, about: Omit<Counted, 'leftOut'>): Stream | null {
    if (streams.size >= MAX_STREAMS) return null
    const stream = { ...about, subjects: new Set<string>(), written: 0, leftOut: 0 }
    streams.set(key, stream)
    return stream
  }

  /** Removes streams without a line since the last count. */
  function writeCounts(): void {
    for (const [key, stream] of streams) {
      if (stream.written === 0 && stream.leftOut === 0) streams.delete(key)
      writeCount(stream)
      stream.written = 0
    }
    for (const counted of byEvent.values()) writeCount(counted)
    byEvent.clear()
    timer = streams.size > 0 ? setTimeout(writeCounts, COUNT_EVERY_MS).unref() : null
  }

  function writeCount(counted: Counted): void {
    const { level, text, facts, leftOut: count } = counted
    if (count > 0) log[level]({ ...facts, count }, text)
    counted.leftOut = 0
  }

  function countSoon(): void {
    timer ??= setTimeout(writeCounts, COUNT_EVERY_MS).unref()
  }

  /** Counts an event of all clients together, without a line for the first one. */
  function count(level: Level, event: string, text?: string): void {
    const key = JSON.stringify([level, text, event])
    const counted = byEvent.get(key) ?? { level, text, facts: { event }, leftOut: 0 }
    byEvent.set(key, counted)
    counted.leftOut++
    countSoon()
  }

  return {
    count,
    /** Clients are counted by `group`: one IPv6 network has more addresses than there are streams. */
    write(
      level: Level,
      group: string,
      caller: Caller,
      facts: LineFacts,
      text?: string,
      err?: Error,
    ): void {
      const { email, origin, ...shared } = facts
      const key = JSON.stringify([level, text, group, shared])
      const stream =
        streams.get(key) ?? openStream(key, { level, text, facts: { ip: caller.ip, ...shared } })
      if (!stream) {
        count(level, facts.event, text)
        return
      }
      countSoon()
      const subject = email ?? origin ?? ''
      if (stream.subjects.has(subject) || stream.written >= MAX_LINES_PER_SECOND) {
        stream.leftOut++
        return
      }
      stream.written++
      stream.subjects.add(subject)
      if (stream.subjects.size > MAX_LINES_PER_SECOND) {
        stream.subjects.delete([...stream.subjects][0] ?? '')
      }
      log[level]({ ...caller, ...facts, ...(err && { err }) }, text)
    },
    /** Writes the counts of the last second before the service stops. */
    flush(): void {
      writeCounts()
      if (timer) clearTimeout(timer)
      timer = null
    },
  }
}
