// The command line as an administrator uses it: real processes, and transcripts of what they say.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { describeDatabase } from '../src/storage/open-store.ts'
import { writeCertificate } from './certificates.ts'
import type { TestDatabase } from './engines.ts'
import { TEST_COST } from './service.ts'

const PROJECT = fileURLToPath(new URL('..', import.meta.url))
export const MAIN = join(PROJECT, 'src', 'main.ts')
/** Most of a start is spent on compiling. */
const COMPILE_CACHE = join(PROJECT, 'node_modules', '.cache', 'compile')

const DAY_MS = 86_400_000

export type Ended = { code: number | null; stdout: string; stderr: string }

type Environment = Record<string, string>
type Masks = [string | RegExp, string | ((masked: string) => string)][]

export type Cli = {
  dataDir: string
  folder: string
  env: Environment
  run: (args: string[], input?: string | Buffer, env?: Environment) => Promise<Ended>
  /** Runs every command of a transcript and writes it anew, as it went this time. */
  replay: (transcript: string) => Promise<string>
  remove: () => Promise<void>
}

export async function createCli({ config }: TestDatabase): Promise<Cli> {
  const folder = await mkdtemp(join(tmpdir(), 'login-cli-'))
  const dataDir = config.engine === 'sqlite' ? dirname(config.file) : folder
  const env = {
    PATH: process.env.PATH ?? '',
    NODE_COMPILE_CACHE: COMPILE_CACHE,
    NODE_ENV: 'test',
    // Where no service listens, which the doctor would find.
    PORT: '1',
    BCRYPT_COST: String(TEST_COST),
    DATA_DIR: dataDir,
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
  }

  async function run(args: string[], input: string | Buffer = '', more: Environment = {}) {
    const child = spawn(process.execPath, [MAIN, ...args], {
      cwd: folder,
      env: { ...env, ...more },
    })
    // A command that does not read its input may be gone before it is written.
    child.stdin.on('error', () => {}).end(input)
    const [stdout, stderr, [code]] = await Promise.all([
      buffer(child.stdout),
      buffer(child.stderr),
      once(child, 'close'),
    ])
    return { code, stdout: stdout.toString(), stderr: stderr.toString() }
  }

  return {
    dataDir,
    folder,
    env,
    run,
    async replay(transcript) {
      const masks = masksFor(describeDatabase(config), dataDir)
      const lines: string[] = []
      for (const line of transcript.split('\n')) {
        if (/^(#|$)/.test(line)) lines.push(line)
        if (!line.startsWith('$ ')) continue
        const { args, input, env } = parse(line.slice(2))
        lines.push(line, ...toLines(await run(args, input, env), masks))
      }
      return lines.join('\n')
    },
    remove: () => rm(folder, { recursive: true }),
  }
}

/** Words in single quotes or none, after an optional `printf '…' |` and assignments. */
function parse(line: string): { args: string[]; input: Buffer; env: Environment } {
  const [, typed = '', command = ''] = /^(?:printf '([^']*)' \| )?(.*)$/.exec(line) ?? []
  const input = typed
    .replaceAll('\\r', '\r')
    .replaceAll('\\n', '\n')
    .replace(/\\x(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(word => word[1] ?? word[2] ?? '')
  const isAssignment = (word: string) => /^[A-Z_]+=/.test(word)
  return {
    args: words.filter(word => !isAssignment(word)),
    input: Buffer.from(input, 'latin1'),
    env: Object.fromEntries(words.filter(isAssignment).map(word => word.split(/=(.*)/))),
  }
}

/** What differs from run to run; in tables, without a change of its width. */
function masksFor(database: string, dataDir: string): Masks {
  const days = [-1, 0, 1].map(day => new Date(Date.now() + day * DAY_MS).toISOString().slice(0, 10))
  const filled = (name: string) => (masked: string) => `<${name.padEnd(masked.length - 2, '-')}>`
  return [
    [database, '<database>'],
    [/\b(DATA_DIR|DATABASE_URL) (is )?right/g, '<variable> $2right'],
    [dataDir, '<data>'],
    [/\b[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\b/g, '<id>'],
    [new RegExp(`(${days.join('|')})T[\\d:.]+Z`, 'g'), filled('time')],
    [new RegExp(days.join('|'), 'g'), filled('date')],
    [/^[\w-]{20}$|(?<="password": ")[\w-]{20}(?=")/gm, '<password>'],
    [/(?<=^|"keyId":")[\w-]{43}(?=[" ])/gm, filled('access key')],
    [/(?<=^|"keyId":")[\w-]{11}(?="| +refresh )/gm, filled('refresh')],
    [/\d+ ms/g, '<n> ms'],
  ]
}

/** stdout as it is, stderr after "! ", an exit code other than 0 after "? ". */
function toLines({ code, stdout, stderr }: Ended, masks: Masks): string[] {
  const linesOf = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'))
  const shown = [
    ...linesOf(stdout),
    ...linesOf(stderr).map(line => `! ${line.startsWith('{') ? toEvent(line) : line}`.trimEnd()),
    ...(code === 0 ? [] : [`? ${code}`]),
  ].join('\n')
  const masked = masks.reduce(
    // Both forms of a replacement are the same call, which the types cannot see.
    (text, [what, mask]) =>
      typeof mask === 'string' ? text.replaceAll(what, mask) : text.replaceAll(what, mask),
    shown,
  )
  return linesOf(masked)
}

/** A log line, as much of it as is the same for everybody. */
function toEvent(line: string): string {
  const { event, msg }: { event: string; msg: string } = JSON.parse(line)
  return `${event}: ${msg}`
}

/** An environment in which the doctor finds nothing unsafe; the key file is made. */
export async function productionEnv(cli: Cli): Promise<Record<string, string>> {
  const env = {
    NODE_ENV: 'production',
    BCRYPT_COST: '10',
    JWT_ISSUER: 'https://login.example.org',
    SIGNING_KEYS_FILE: join(cli.folder, 'keys.json'),
    ...(await writeCertificate(cli.folder, 'valid')),
  }
  assert.equal((await cli.run(['keys', 'rotate'], '', env)).code, 0)
  return env
}
