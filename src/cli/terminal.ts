// The output and input of commands: data to stdout, everything else to stderr. A change is announced in one
// line: a sentence on a terminal, a log event anywhere else.
import { hostname, userInfo } from 'node:os'
import type { Actor } from '../domain/audit.ts'
import { printable, safeJson } from '../log/printable.ts'
import { cutMessage, withoutSecrets } from '../log/redaction.ts'
import { Failure } from '../system/failures.ts'
import { hasCode, isDescriptorExposed, messageOf } from '../system/files.ts'
import { ask } from './prompt.ts'

export type Terminal = ReturnType<typeof createTerminal>

const CLEAR_LINE = '\r\x1b[K'

export type Streams = Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>

export function createTerminal({ stdin, stdout, stderr }: Streams) {
  // `print` reports a failed write to stdout. A failed write to stderr cannot be reported anywhere.
  for (const stream of [stdout, stderr]) stream.on('error', () => {})
  const screen = { input: stdin, output: stderr }
  let isInProgress = false
  const clear = () => {
    if (isInProgress) stderr.write(CLEAR_LINE)
    isInProgress = false
  }
  const say = (sentence: string) => {
    clear()
    stderr.write(`${printable(sentence)}\n`)
  }

  return {
    say,
    /** True if questions can be asked. */
    isInteractive: stdin.isTTY && stderr.isTTY,
    /** True if the output goes to a file that other users of this machine can read. */
    isOutputExposed: () => stdout.fd !== undefined && isDescriptorExposed(stdout.fd),
    print(text: string): Promise<void> {
      clear()
      return new Promise((resolve, reject) => {
        stdout.write(text, error => (error ? reject(unwritten(error)) : resolve()))
      })
    },
    /** A line that the next line overwrites; only on a terminal. */
    progress(sentence: string) {
      if (!stderr.isTTY) return
      stderr.write(`${CLEAR_LINE}${printable(sentence)}`)
      isInProgress = true
    },
    announce(event: string, facts: Record<string, unknown>, sentence: string) {
      if (stderr.isTTY) return say(sentence)
      // A line as the service's log has it. The library that writes that log would take 0.08 s to load.
      const logged = withoutSecrets({ event, ...facts, actor: commandActor().name })
      const line = { level: 'info', time: new Date(), ...logged, msg: cutMessage(sentence) }
      stderr.write(`${safeJson(JSON.stringify(line))}\n`)
    },
    askHidden: (question: string) => ask(question, screen, true),
    async confirm(question: string): Promise<boolean> {
      return /^y(es)?$/i.test((await ask(`${question} [y/N] `, screen, false)).trim())
    },
    stdin,
  }
}

function unwritten(error: Error): Error {
  if (hasCode(error, 'EPIPE')) return new Failure('', { code: 'output-closed' })
  return new Failure(`The output could not be written: ${messageOf(error)}.`)
}

/** The user of the operating system that runs a command, for the log and the audit. */
export function commandActor(): Actor {
  return { kind: 'user', name: userName(), host: hostname() }
}

/** The account that has called sudo, where there is one. In a container the user may have no name. */
function userName(): string {
  const { SUDO_USER = '' } = process.env
  if (/^[\w.@\\-]{1,64}$/.test(SUDO_USER)) return SUDO_USER
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
