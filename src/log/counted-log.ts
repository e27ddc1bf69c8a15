// Counted lines: the first of its kind is written at once, its repetitions as one count per second.
// A client that is refused again and again must not be able to fill the disk.
import type { FastifyBaseLogger } from 'fastify'

const COUNT_EVERY_MS = 1_000
/** Kinds of lines that are counted per client and reason. All others are counted by event. */
const MAX_STREAMS = 1_000
/** Lines of one stream per second, each with another email or origin. */
const MAX_LINES = 10

export type Level = 'info' | 'warn' | 'error'

/** A connection without a request has an address at most. */
type Caller = { requestId?: string; ip?: string; userAgent?: string }

/** Caller, email, origin and error may differ between lines that are counted together, the other facts may not. */
export type LineFacts = { event: string; err?: Error; [fact: string]: string | Error | undefined }

/** `written`: the emails or origins of the lines that were written last. The numbers are those of this second. */
type Stream = {
  level: Level
  text: string | undefined
  facts: object
  written: Set<string>
  lines: number
  count: number
}

export type CountedLog = ReturnType<typeof createCountedLog>

export function createCountedLog(log: FastifyBaseLogger) {
  const streams = new Map<string, Stream>()
  let timer: NodeJS.Timeout | undefined

  /** Writes the counts of the last second, and forgets streams without a line in it. */
  function flush(): void {
    clearTimeout(timer)
    for (const [key, stream] of streams) {
      const { level, text, facts, lines, count } = stream
      if (count > 0) log[level]({ ...facts, count }, text)
      if (lines + count === 0) streams.delete(key)
      Object.assign(stream, { lines: 0, count: 0 })
    }
    timer = streams.size > 0 ? setTimeout(flush, COUNT_EVERY_MS).unref() : undefined
  }

  return {
    /** Clients are counted by `group`: one IPv6 network has more addresses than there are streams. */
    write(level: Level, group: string, caller: Caller, given: LineFacts, text?: string): void {
      const { email, origin, err, ...shared } = given
      const ofClient = JSON.stringify([level, text, group, shared])
      const isShown = streams.size < MAX_STREAMS || streams.has(ofClient)
      const key = isShown ? ofClient : JSON.stringify([level, text, given.event])
      const facts = isShown ? { ip: caller.ip, ...shared } : { event: given.event }
      const stream: Stream = streams.get(key) ?? {
        ...{ level, text, facts, written: new Set(), lines: 0, count: 0 },
      }
      streams.set(key, stream)
      timer ??= setTimeout(flush, COUNT_EVERY_MS).unref()
      const subject = String(email ?? origin)
      if (!isShown || stream.written.has(subject) || stream.lines >= MAX_LINES) {
        stream.count++
        return
      }
      if (stream.written.size >= MAX_LINES) stream.written.clear()
      stream.written.add(subject)
      stream.lines++
      log[level]({ ...caller, ...given }, text)
    },
    flush,
  }
}
