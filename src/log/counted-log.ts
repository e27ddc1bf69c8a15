// Counted lines: the first of its kind is written at once, its repetitions as one count per second.
// A client that is refused again and again must not be able to fill the disk.
import type { FastifyBaseLogger } from 'fastify'

const COUNT_EVERY_MS = 1_000
/** Kinds of lines that are counted per client and reason. All others are counted by event. */
const MAX_STREAMS = 1_000
/** Lines of one stream per second, each with another email or origin. */
const MAX_LINES = 10

export type Level = 'info' | 'warn' | 'error'

/** What a line says of its request. It may differ between lines that are counted together. */
type Caller = { requestId: string; ip: string; userAgent: string }

/** Email and origin may differ between lines that are counted together, the other facts may not. */
export type LineFacts = { event: string; email?: string; origin?: string } & Record<string, string>

type Stream = {
  level: Level
  text: string | undefined
  /** The fields of the line with the count. */
  facts: object
  /** The emails or origins of the lines that were written last. */
  written: Set<string>
  linesThisSecond: number
  countThisSecond: number
}

export type CountedLog = ReturnType<typeof createCountedLog>

export function createCountedLog(log: FastifyBaseLogger) {
  const streams = new Map<string, Stream>()
  let timer: NodeJS.Timeout | undefined

  function streamOf(key: string, level: Level, text: string | undefined, facts: object): Stream {
    const counts = { linesThisSecond: 0, countThisSecond: 0 }
    const stream = streams.get(key) ?? { level, text, facts, written: new Set(), ...counts }
    streams.set(key, stream)
    timer ??= setTimeout(flush, COUNT_EVERY_MS).unref()
    return stream
  }

  /** Writes the counts of the last second, and forgets streams without a line in it. */
  function flush(): void {
    clearTimeout(timer)
    for (const [key, stream] of streams) {
      const { level, text, facts, linesThisSecond, countThisSecond: count } = stream
      if (count > 0) log[level]({ ...facts, count }, text)
      if (linesThisSecond + count === 0) streams.delete(key)
      stream.linesThisSecond = 0
      stream.countThisSecond = 0
    }
    timer = streams.size > 0 ? setTimeout(flush, COUNT_EVERY_MS).unref() : undefined
  }

  return {
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
      if (streams.size >= MAX_STREAMS && !streams.has(key)) {
        const { event } = facts
        streamOf(JSON.stringify([level, text, event]), level, text, { event }).countThisSecond++
        return
      }
      const stream = streamOf(key, level, text, { ip: caller.ip, ...shared })
      const subject = email ?? origin ?? ''
      if (stream.written.has(subject) || stream.linesThisSecond >= MAX_LINES) {
        stream.countThisSecond++
        return
      }
      if (stream.written.size >= MAX_LINES) stream.written.clear()
      stream.written.add(subject)
      stream.linesThisSecond++
      log[level]({ ...caller, ...facts, ...(err && { err }) }, text)
    },
    flush,
  }
}
