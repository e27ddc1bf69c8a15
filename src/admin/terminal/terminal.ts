// How the commands speak: data to stdout, everything else to stderr; a change is one line, a sentence
// on a terminal and a log event anywhere else.
import { userInfo } from 'node:os'
import { hasCode } from '../../files.ts'
import { createLog } from '../../log/log.ts'
import { printable } from '../../log/printable.ts'
import { Failure, messageOf, OutputClosed } from '../failures.ts'
import { askHidden, askLine, readAll } from './prompt.ts'

export type Terminal = {
  /** Whether there is somebody to ask. */
  isInteractive: boolean
  /** Whether standard input is a keyboard, and shows what is typed. */
  isInputTyped: boolean
  print(text: string): Promise<void>
  say(sentence: string): void
  /** A line that the next one overwrites; on a terminal only. */
  progress(sentence: string): void
  announce(event: string, facts: Record<string, unknown>, sentence: string): void
  askHidden(question: string): Promise<string>
  confirm(question: string): Promise<boolean>
  /** What stands on standard input, up to a few bytes more than the given number. */
  readInput(maxBytes: number): Promise<Buffer>
}

const CLEAR_LINE = '\r\x1b[K'

export type Streams = Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>

export function createTerminal({ stdin, stdout, stderr }: Streams): Terminal {
  // A failed write is the business of `print`; nobody could be told of one to stderr.
  for (const stream of [stdout, stderr]) stream.on('error', () => {})
  const screen = { input: stdin, output: stderr }
  let isInProgress = false
  const clear = () => {
    if (isInProgress) stderr.write(CLEAR_LINE)
    isInProgress = false
  }

  return {
    isInteractive: stdin.isTTY && stderr.isTTY,
    isInputTyped: stdin.isTTY,
    print: text =>
      new Promise((resolve, reject) => {
        stdout.write(text, error => (error ? reject(unwritten(error)) : resolve()))
      }),
    say(sentence) {
      clear()
      stderr.write(`${printable(sentence)}\n`)
    },
    progress(sentence) {
      if (!stderr.isTTY) return
      stderr.write(`${CLEAR_LINE}${printable(sentence)}`)
      isInProgress = true
    },
    announce(event, facts, sentence) {
      clear()
      if (stderr.isTTY) {
        stderr.write(`${printable(sentence)}\n`)
        return
      }
      // Written at once, between what else is said here.
      const output = { write: (line: string) => stderr.write(line) }
      createLog('info', output).info({ event, ...facts, actor: actor() }, sentence)
    },
    askHidden: question => askHidden(question, screen),
    async confirm(question) {
      return /^y(es)?$/i.test((await askLine(`${question} [y/N] `, screen)).trim())
    },
    readInput: maxBytes => readAll(stdin, maxBytes),
  }
}

function unwritten(error: Error): Error {
  if (hasCode(error, 'EPIPE')) return new OutputClosed()
  return new Failure(`The output could not be written: ${messageOf(error)}.`)
}

/** Who did it, for the log; a container's user may have no name. */
function actor(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
