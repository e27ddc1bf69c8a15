// One JSON line an event; on a terminal the same lines for human eyes.
import { Writable } from 'node:stream'
import pino, { type DestinationStream, type Logger, type LoggerOptions } from 'pino'
import { type PrettyOptions, prettyFactory } from 'pino-pretty'
import type { Config } from './config.ts'

export type Log = Logger

/** Never written, wherever they turn up in what is logged. */
const SECRETS = [
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
]

/**
 * Line ends to some readers, commands to terminals, or what turns text around: an e-mail must not be
 * able to forge what a line says.
 */
const UNSAFE_CHARACTERS = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

const OPTIONS: LoggerOptions = {
  base: null,
  timestamp: pino.stdTimeFunctions.isoTime,
  redact: { paths: SECRETS.flatMap(name => [name, `*.${name}`, `*.*.${name}`]), remove: true },
  formatters: { level: label => ({ level: label }) },
  serializers: { err: describeError },
}

const TERMINAL: PrettyOptions = {
  ignore: 'event,requestId',
  messageFormat: '{event} {msg}',
  translateTime: 'SYS:HH:MM:ss',
  singleLine: true,
}

export function createLog(
  level: Config['logLevel'],
  output: NodeJS.WriteStream | DestinationStream,
): Log {
  const isTerminal = 'isTTY' in output && output.isTTY
  const toText = isTerminal ? forTerminal(prettyFactory(TERMINAL)) : forPrograms
  let lostLines = 0
  /** What is lost, as on a full disk, must not fail the login that it is about, but must be told. */
  function onWritten(error?: Error | null): void {
    if (error) lostLines++
    if (error || lostLines === 0) return
    const lines = lostLines
    lostLines = 0
    log.error({ event: 'log.lines_lost', lines })
  }
  const log: Log = pino(
    { ...OPTIONS, level },
    {
      write: line =>
        output instanceof Writable
          ? output.write(toText(line), onWritten)
          : output.write(toText(line)),
    },
  )
  return log
}

/** JSON has escaped the others by itself; the line's own end stays. */
function forPrograms(line: string): string {
  return line.replace(UNSAFE_CHARACTERS, character =>
    character === '\n' ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Only a stack may go over several lines, which are indented. */
function forTerminal(prettify: (record: object) => string) {
  return (line: string) =>
    prettify(
      JSON.parse(line, (key, value) =>
        typeof value === 'string'
          ? value.replace(UNSAFE_CHARACTERS, character =>
              character === '\n' && key === 'stack' ? character : '\ufffd',
            )
          : value,
      ),
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
