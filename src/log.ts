// One JSON line an event; on a terminal the same lines for human eyes.
import { Writable } from 'node:stream'
import pino, { type DestinationStream, type Logger, type LoggerOptions } from 'pino'
import { type PrettyOptions, prettyFactory } from 'pino-pretty'
import type { Config } from './config.ts'
import { printable, printableLine, safeJson } from './printable.ts'

export type Log = Logger

/** Never written, wherever they turn up in what is logged. */
const SECRETS = new Set([
  'password',
  'passwordHash',
  'password_hash',
  'accessToken',
  'refreshToken',
  'token',
  'authorization',
  'cookie',
  'headers',
  'body',
  'query',
  'url',
])
/** No line goes deeper; what does is left out. */
const MAX_DEPTH = 4

const OPTIONS: LoggerOptions = {
  base: null,
  timestamp: pino.stdTimeFunctions.isoTime,
  formatters: {
    level: label => ({ level: label }),
    log: facts => withoutSecrets(facts),
  },
  serializers: { err: describeError },
}

const TERMINAL: PrettyOptions = {
  // The text of the start has both addresses.
  ignore: 'event,requestId,address,page',
  messageFormat: '{event} {msg}',
  translateTime: 'SYS:HH:MM:ss',
  singleLine: true,
}

export function createLog(
  level: Config['logLevel'],
  output: NodeJS.WriteStream | DestinationStream,
): Log {
  const isTerminal = 'isTTY' in output && output.isTTY
  const toText = isTerminal ? forTerminal(prettyFactory(TERMINAL)) : safeJson
  const write =
    output instanceof Writable
      ? createBatches(output, lines => log.error({ event: 'log.lines_lost', lines }))
      : (text: string) => output.write(text)
  const log = pino({ ...OPTIONS, level }, { write: line => write(toText(line)) })
  const { child } = log
  log.child = ((facts: object) => child.call(log, withoutSecrets(facts))) as Log['child']
  return log
}

/**
 * What one turn of the event loop logs is written at its end, at once: in a flood the writes would
 * cost more than the refusals.
 */
function createBatches(output: Writable, tellLost: (lines: number) => void) {
  let lines: string[] = []
  let lostLines = 0

  function flush(): void {
    if (lines.length === 0) return
    const batch = lines
    lines = []
    // What is lost, as on a full disk, must not fail the login that it is about, but must be told.
    output.write(batch.join(''), error => {
      if (error) lostLines += batch.length
      if (error || lostLines === 0) return
      tellLost(lostLines)
      lostLines = 0
    })
  }
  process.once('exit', flush)
  return (line: string) => {
    if (lines.push(line) === 1) setImmediate(flush)
  }
}

function withoutSecrets(facts: object, depth = 1): Record<string, unknown> {
  const kept: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(facts)) {
    if (SECRETS.has(name)) continue
    if (!isPlain(value)) kept[name] = value
    else if (depth < MAX_DEPTH) kept[name] = withoutSecrets(value, depth + 1)
  }
  return kept
}

function isPlain(value: unknown): value is object {
  return (
    value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype
  )
}

/** Only a stack may go over several lines, which are indented. */
function forTerminal(prettify: (record: object) => string) {
  return (line: string) =>
    prettify(
      JSON.parse(line, (key, value) => {
        if (typeof value !== 'string') return value
        return key === 'stack' ? printable(value) : printableLine(value)
      }),
    )
}

/**
 * Only what names the fault. A driver's error also carries details that quote the row, and the
 * library's may carry the statement.
 */
function describeError(error: unknown) {
  if (!(error instanceof Error)) return { message: typeof error }
  const code = 'code' in error ? error.code : undefined
  return { type: error.name, code, message: error.message, stack: error.stack }
}
