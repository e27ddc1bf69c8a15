// A line of the log as text for a terminal: time, level, event and message, then the other facts as JSON.
import { styleText } from 'node:util'
import { printable, printableLine, safeJson } from './printable.ts'

const COLOURS = {
  trace: 'gray',
  debug: 'blue',
  info: 'green',
  warn: 'yellow',
  error: 'red',
  fatal: 'red',
} as const

type LogLine = { level: keyof typeof COLOURS; time: string; event?: string; msg?: string }

export function toTerminalText(line: string): string {
  const { level, time, event = '', msg = '', ...facts }: LogLine = JSON.parse(line)
  let stack = ''
  const json = JSON.stringify(facts, (name, value) => {
    // The text of service.started contains address and page.
    if (['requestId', 'address', 'page'].includes(name)) return undefined
    if (name !== 'stack' || typeof value !== 'string') return value
    // Indented, so that no line of it can look like another event.
    stack += `${printable(value).replace(/^/gm, '    ')}\n`
    return undefined
  })
  const words = [
    `[${new Date(time).toTimeString().slice(0, 8)}]`,
    `${styleText(COLOURS[level], level.toUpperCase())}:`,
    styleText('cyan', printableLine(`${event} ${msg}`.trim())),
    json === '{}' ? '' : styleText('gray', safeJson(json)),
  ]
  return `${words.filter(Boolean).join(' ')}\n${stack}`
}
