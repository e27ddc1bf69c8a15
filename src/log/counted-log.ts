// Refusals and faults that repeat: the first is logged at once, then one line a second counts the others.
// A blocked caller must not be able to fill the disk.
import type { FastifyBaseLogger } from 'fastify'
import { digestOf } from '../identifiers.ts'

const TELL_EVERY_MS = 1_000
/** Clients and reasons that are told apart. What is beyond is counted by event alone. */
const MAX_STREAMS = 1_000
/** Emails or origins of one client that get a line of their own in a second. */
const MAX_LINES = 10

type Level = 'info' | 'warn' | 'error'

/** What differs from line to line of the same kind, and the rest, by which they are counted. */
export type CountedLine = {
  event: string
  ip: string
  requestId: string
  userAgent: string
  email?: string
  origin?: string
} & Record<string, string>

type Counted = {
  level: Level
  text: string | undefined
  /** What the count is told with. */
  facts: object
  leftOut: number
}

/** Lines with the same level, text, event, client and reason. */
type Stream = Counted & {
  /** Digests of the emails or origins that were told last. */
  told: Set<string>
  /** Written since the last count. */
  lines: number
}

export type CountedLog = ReturnType<typeof createCountedLog>

export function createCountedLog(log: FastifyBaseLogger) {
  const streams = new Map<string, Stream>()
  const others = new Map<string, Counted>()
  let timer: NodeJS.Timeout | null = null

  function streamOf(key: string, about: Omit<Counted, 'leftOut'>): Stream | null {
    const known = streams.get(key)
    if (known) return known
    if (streams.size >= MAX_STREAMS) return null
    const stream = { ...about, told: new Set<string>(), lines: 0, leftOut: 0 }
    streams.set(key, stream)
    return stream
  }

  /** Writes the counts. A stream that has been silent since the last time is forgotten. */
  function tell(): void {
    for (const [key, stream] of streams) {
      if (stream.lines === 0 && stream.leftOut === 0) streams.delete(key)
      tellCount(stream)
      stream.lines = 0
    }
    for (const counted of others.values()) tellCount(counted)
    others.clear()
    timer = streams.size > 0 ? setTimeout(tell, TELL_EVERY_MS).unref() : null
  }

  function tellCount(counted: Counted): void {
    const { level, text, facts, leftOut: count } = counted
    if (count > 0) log[level]({ ...facts, count }, text)
    counted.leftOut = 0
  }

  return {
    /** A client is counted by its group: an IPv6 network has more addresses than there are streams. */
    write(level: Level, group: string, line: CountedLine, text?: string, err?: Error): void {
      const { requestId: _, userAgent: __, email, origin, ...facts } = line
      const key = JSON.stringify([level, text, { ...facts, ip: group }])
      const stream = streamOf(key, { level, text, facts })
      timer ??= setTimeout(tell, TELL_EVERY_MS).unref()
      if (!stream) {
        const facts = { event: line.event }
        const key = JSON.stringify([level, text, facts])
        const counted = others.get(key) ?? { level, text, facts, leftOut: 0 }
        others.set(key, counted)
        counted.leftOut++
        return
      }
      const subject = digestOf(email ?? origin ?? '')
      if (stream.told.has(subject) || stream.lines >= MAX_LINES) {
        stream.leftOut++
        return
      }
      stream.lines++
      stream.told.add(subject)
      if (stream.told.size > MAX_LINES) stream.told.delete([...stream.told][0] ?? '')
      log[level](err ? { ...line, err } : line, text)
    },
    /** To be called before the end, so that the last second is not missing. */
    flush(): void {
      tell()
      if (timer) clearTimeout(timer)
      timer = null
    },
  }
}
