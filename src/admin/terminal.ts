// How the commands speak: data to stdout, everything else to stderr; a change is one line, a sentence
// on a terminal and a log event anywhere else.
import { userInfo } from 'node:os'
import { text } from 'node:stream/consumers'
import confirmPrompt from '@inquirer/confirm'
import passwordPrompt from '@inquirer/password'
import { createLog } from '../log.ts'
import { problemWithPassword } from '../login/credentials.ts'

/** A refusal that its reader can act on: printed without a stack trace, exit code 1. */
export class Refusal extends Error {}

export type Terminal = {
  printJson(data: unknown): void
  printTable(rows: Record<string, string>[]): void
  printFields(fields: Record<string, string>): void
  announce(event: string, facts: Record<string, unknown>, sentence: string): void
  say(sentence: string): void
  askNewPassword(): Promise<string>
  readPassword(): Promise<string>
  confirm(question: string): Promise<boolean>
}

export type Streams = Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>

export function createTerminal({ stdin, stdout, stderr }: Streams): Terminal {
  const log = createLog('info', stderr)
  const isInteractive = stdin.isTTY && stderr.isTTY
  const context = { input: stdin, output: stderr }

  return {
    printJson: data => stdout.write(`${JSON.stringify(data, null, 2)}\n`),
    printTable: rows => stdout.write(alignColumns(rows)),
    printFields(fields) {
      const width = Math.max(...Object.keys(fields).map(name => name.length))
      for (const [name, value] of Object.entries(fields)) {
        stdout.write(`${name.padEnd(width)}  ${printable(value)}\n`)
      }
    },
    announce(event, facts, sentence) {
      if (stderr.isTTY) stderr.write(`${printable(sentence)}\n`)
      else log.info({ event, ...facts, actor: userInfo().username }, sentence)
    },
    say: sentence => stderr.write(`${sentence}\n`),
    async askNewPassword() {
      if (!isInteractive) {
        throw new Refusal('There is no terminal to ask at: use --password-stdin or --generate.')
      }
      const first = await passwordPrompt(
        { message: 'Password:', validate: answer => refusedPassword(answer) ?? true },
        context,
      )
      const second = await passwordPrompt({ message: 'The same again:' }, context)
      if (first !== second) throw new Refusal('The two passwords differ; nothing was changed.')
      return first
    },
    async readPassword() {
      const password = (await text(stdin)).replace(/\r?\n$/, '')
      const problem = refusedPassword(password)
      if (problem) throw new Refusal(problem)
      return password
    },
    async confirm(question) {
      if (!isInteractive)
        throw new Refusal('There is no terminal to ask at: add --yes if you are sure.')
      return confirmPrompt({ message: question, default: false }, context)
    },
  }
}

function refusedPassword(password: string): string | null {
  const problem = problemWithPassword(password)
  return problem && `This password cannot be used: ${problem}.`
}

/** Stored text must not be able to move the cursor or colour the terminal. */
function printable(value: string): string {
  return value.replace(/\p{Cc}/gu, '\uFFFD')
}

function alignColumns(rows: Record<string, string>[]): string {
  const names = Object.keys(rows[0] ?? {})
  const lines = [
    names.map(name => name.toUpperCase()),
    ...rows.map(row => names.map(name => printable(row[name] ?? ''))),
  ]
  const widths = names.map((_, column) => Math.max(...lines.map(line => line[column]?.length ?? 0)))
  return lines
    .map(line =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .map(line => `${line}\n`)
    .join('')
}
