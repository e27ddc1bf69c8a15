// One JSON line an event; on a terminal the same lines for human eyes.
import pino, { type DestinationStream, type Logger, type LoggerOptions } from 'pino'
import pretty from 'pino-pretty'
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

/** Line ends to some readers, but not to JSON: an e-mail must not be able to forge a second line. */
const UNSAFE_LINE_ENDS = /[\u0085\u2028\u2029]/g

const OPTIONS: LoggerOptions = {
  base: null,
  timestamp: pino.stdTimeFunctions.isoTime,
  redact: { paths: SECRETS.flatMap(name => [name, `*.${name}`, `*.*.${name}`]), remove: true },
  formatters: { level: label => ({ level: label }) },
  serializers: { err: describeError },
  hooks: {
    streamWrite: line =>
      line.replace(
        UNSAFE_LINE_ENDS,
        end => `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`,
      ),
  },
}

export function createLog(
  level: Config['logLevel'],
  output: NodeJS.WriteStream | DestinationStream,
): Log {
  const options = { ...OPTIONS, level }
  if (!('isTTY' in output) || !output.isTTY) return pino(options, output)
  return pino(
    options,
    pretty({
      destination: output,
      ignore: 'event,requestId',
      messageFormat: '{event} {msg}',
      translateTime: 'SYS:HH:MM:ss',
      singleLine: true,
      sync: true,
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
