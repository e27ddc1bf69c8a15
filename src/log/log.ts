// The log: one JSON line per event; on a terminal, the same lines formatted for people.
import { Writable } from 'node:stream'
import pino, { type DestinationStream, type Logger, type LoggerOptions } from 'pino'
import { type PrettyOptions, prettyFactory } from 'pino-pretty'
import type { Config } from '../config/config.ts'
import { createLogOutput } from './output.ts'
import { printable, printableLine, safeJson } from './printable.ts'
import { cutMessage, withoutSecrets } from './redaction.ts'

export type Log = Logger & {
  /** How many lines were lost since the start. */
  countLost: () => number
}

const OPTIONS: LoggerOptions = {
  base: null,
  timestamp: pino.stdTimeFunctions.isoTime,
  formatters: {
    level: label => ({ level: label }),
    log: facts => withoutSecrets(facts),
  },
  // withoutSecrets() has already described the error.
  serializers: { err: described => described },
  hooks: {
    // Without a text, pino would write the error's message, whatever its length.
    logMethod([facts, text, ...values]: [unknown, unknown?, ...unknown[]], method) {
      const fault = facts instanceof Error ? facts : Object(facts).err
      const given = text ?? (fault instanceof Error ? fault.message : undefined)
      const bounded = given === undefined ? undefined : cutMessage(String(given))
      method.call(this, facts, bounded, ...values)
    },
  },
}

const TERMINAL: PrettyOptions = {
  // The text of service.started contains address and page.
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
  const { write, countLost } =
    output instanceof Writable
      ? createLogOutput(output, lines => log.error({ event: 'log.lines_lost', lines }))
      : { write: (text: string) => output.write(text), countLost: () => 0 }
  const log = pino({ ...OPTIONS, level }, { write: line => write(toText(line)) })
  const { child } = log
  log.child = ((facts: object) => child.call(log, withoutSecrets(facts))) as Log['child']
  return Object.assign(log, { countLost })
}

/** Only a stack may have several lines; pino-pretty indents them. */
function forTerminal(prettify: (record: object) => string) {
  return (line: string) =>
    prettify(
      JSON.parse(line, (key, value) => {
        if (typeof value !== 'string') return value
        return key === 'stack' ? printable(value) : printableLine(value)
      }),
    )
}
