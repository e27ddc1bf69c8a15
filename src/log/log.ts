// The log: one JSON line per event; on a terminal, the same lines formatted for people.
import { Writable } from 'node:stream'
import pino, { type DestinationStream, type Logger, type LoggerOptions } from 'pino'
import type { Config } from '../config/config.ts'
import { withoutAddresses } from './client-addresses.ts'
import { createLogOutput } from './output.ts'
import { safeJson } from './printable.ts'
import { cutMessage, withoutSecrets } from './redaction.ts'
import { toTerminalText } from './terminal-text.ts'

export type Log = Logger & {
  /** How many lines were lost since the start. */
  countLost: () => number
}

const OPTIONS: LoggerOptions = {
  base: null,
  timestamp: pino.stdTimeFunctions.isoTime,
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

export function createLog(
  level: Config['logLevel'],
  output: NodeJS.WriteStream | DestinationStream,
  logIp: Config['logIp'] = 'full',
): Log {
  const toLogged = (facts: object) => withoutAddresses(withoutSecrets(facts), logIp)
  const formatters = { level: (label: string) => ({ level: label }), log: toLogged }
  const isTerminal = 'isTTY' in output && output.isTTY
  const toText = isTerminal ? toTerminalText : safeJson
  const { write, countLost } =
    output instanceof Writable
      ? createLogOutput(output, lines => log.error({ event: 'log.lines_lost', lines }))
      : { write: (text: string) => output.write(text), countLost: () => 0 }
  const log = pino({ ...OPTIONS, formatters, level }, { write: line => write(toText(line)) })
  const { child } = log
  log.child = ((facts: object) => child.call(log, toLogged(facts))) as Log['child']
  return Object.assign(log, { countLost })
}
