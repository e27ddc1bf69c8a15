// The service in its own process, as an operator runs it, with its ports, log lines and exit code.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { after } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import bcrypt from 'bcrypt'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { changeAt } from '../storage/fixtures.ts'
import { copyDevelopmentCertificate } from './certificates.ts'
import { createMigratedDatabase, openPatientStore, query } from './engines.ts'
import { endWithTests, freePort, type PostgresServer } from './postgres-server.ts'
import { createClient, ISSUER, PASSWORD, TEST_COST } from './service.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

export const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

export type Line = { level: string; event: string; err?: { message: string } } & Record<
  string,
  unknown
>
export type Exit = { code: number | null; signal: NodeJS.Signals | null }

export type RunningProcess = ReturnType<typeof watch>
export type Deployment = Awaited<ReturnType<typeof createDeployment>>
export type ServiceProcess = Awaited<ReturnType<Deployment['start']>>

type Command = {
  command?: string[]
  cwd?: string
  /** Starts a new process group, so that a signal to the group does not reach the tests. */
  hasOwnGroup?: boolean
  /** The user to run as, if it is not the user of the tests. */
  identity?: { uid?: number; gid?: number }
}

/** The environment of every process, without variables of the test process or of a local `.env`. */
export const BASE_ENV = {
  PATH: process.env.PATH ?? '',
  NODE_ENV: 'test',
  PORT: '0',
  OPS_PORT: '0',
  JWT_ISSUER: ISSUER,
  DATABASE_URL: '',
  BCRYPT_COST: String(TEST_COST),
  // On a busy machine, too, attempts are verified and not shed.
  LOGIN_TIME_MS: '5000',
  DRAIN_DELAY_MS: '0',
  // The threads with the lanes would take a fifth of the CPU time of a start.
  PASSWORD_ENGINE: 'native',
}
/** The command of "npm start". */
export const SERVE = [
  process.execPath,
  ...['--max-semi-space-size=4', join(PROJECT, 'launch.cjs'), 'src/main.ts', 'serve'],
]

export function run(
  env: Record<string, string>,
  { command = SERVE, cwd = tmpdir(), hasOwnGroup = false, identity }: Command = {},
): RunningProcess {
  const [file = '', ...args] = command
  const child = spawn(file, args, {
    ...identity,
    cwd,
    env: { ...BASE_ENV, ...env },
    detached: hasOwnGroup,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  endWithTests(child)
  return watch(child, hasOwnGroup)
}

/** Killed after the calling test or suite. */
export function runOwned(env: Record<string, string>, command?: Command): RunningProcess {
  const running = run(env, command)
  after(() => end(running))
  return running
}

async function end({ kill, killGroup, exit }: RunningProcess): Promise<void> {
  killGroup('SIGKILL') || kill('SIGKILL')
  await exit
}

/** Asks the process to end; fails if it does not end by itself and without an error. */
export async function stop(service: RunningProcess): Promise<void> {
  service.kill('SIGTERM')
  assert.deepEqual(await service.exit, { code: 0, signal: null })
}

function watch(child: ChildProcess, hasOwnGroup: boolean) {
  const { pid = 0, stdout, stderr } = child
  if (!stdout || !stderr) throw new Error('the outputs are not piped')
  const lines: Line[] = []
  let output = ''
  stderr.on('data', chunk => {
    output += chunk
  })
  createInterface({ input: stdout }).on('line', text => {
    output += `${text}\n`
    if (!text.startsWith('{')) return
    const line: Line = JSON.parse(text)
    lines.push(line)
    child.emit(`line:${line.event}`, line)
  })
  const exit = once(child, 'close').then(([code, signal]): Exit => ({ code, signal }))
  return {
    pid,
    lines: () => [...lines],
    /** Everything written to stdout and stderr. */
    output: () => output,
    /** Waits for the first line of this event; rejects if the process ends without one. */
    async line(event: string): Promise<Line> {
      const earlier = lines.find(line => line.event === event)
      if (earlier) return earlier
      const ended = exit.then(({ code, signal }) => {
        throw new Error(`ended with ${code ?? signal} before "${event}":\n${output}`)
      })
      const [line] = await Promise.race([once(child, `line:${event}`), ended])
      return line
    },
    exit,
    /** Returns false if the process has ended already. */
    kill: (signal: NodeJS.Signals | 0) => child.kill(signal),
    /** Signals its process group, if it has its own: npm starts further processes. */
    killGroup(signal: NodeJS.Signals) {
      try {
        return hasOwnGroup && process.kill(-pid, signal)
      } catch {
        return false
      }
    },
  }
}

/** A database and a data folder for services that a test starts and kills; without tables, if not `hasTables`. */
export async function createDeployment(
  engine: EngineName,
  env: Record<string, string> = {},
  server?: string,
) {
  const database = await createMigratedDatabase(engine, server)
  const { config } = database
  const dataDir =
    config.engine === 'sqlite' ? dirname(config.file) : await makeTemporaryFolder('login-service-')
  await copyDevelopmentCertificate(dataDir, env)
  const fullEnv = {
    DATA_DIR: dataDir,
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
    ...env,
  }
  const store = await openPatientStore(config)
  const passwordHash = await bcrypt.hash(PASSWORD, TEST_COST)
  const started: RunningProcess[] = []

  return {
    database,
    dataDir,
    env: fullEnv,
    async addUser(email: string, hash = passwordHash) {
      const user = { id: randomUUID(), email, name: 'Test', role: 'user' }
      await store.users.insert({ ...user, passwordHash: hash }, changeAt())
    },
    async start(more: Record<string, string> = {}, command: Command = {}) {
      const opsPort = more.OPS_PORT ?? String(await freePort())
      const service = run({ ...fullEnv, ...more, OPS_PORT: opsPort }, command)
      started.push(service)
      const { address } = await service.line('service.started')
      const url = String(address)
      const client = await createClient(url, dataDir, env.TLS_CERT_FILE || undefined)
      service.exit.then(client.close)
      return {
        ...service,
        url,
        call: client.call,
        login: (email: string, password = PASSWORD) => client.call({ body: { email, password } }),
        /** The status of a health endpoint. */
        health: async (path: '/livez' | '/readyz') =>
          (await fetch(`http://127.0.0.1:${opsPort}${path}`)).status,
      }
    },
    /** Kills the processes that still run, and removes the database and the folder. */
    async remove() {
      await Promise.all(started.map(end))
      await store.close()
      await database.drop()
      if (config.engine === 'postgres') await rm(dataDir, { recursive: true })
    },
  }
}

/** Stops the first process of a PostgreSQL, which answers new connections, and its connections; returns what wakes them. */
export async function freezeServer(server: PostgresServer, which = 'pid <> pg_backend_pid()') {
  const connections = await query(server.url, `select pid from pg_stat_activity where ${which}`)
  const frozen = [server.pid(), ...connections.map(({ pid }) => Number(pid))]
  for (const pid of frozen) process.kill(pid, 'SIGSTOP')
  return async () => {
    for (const pid of frozen) process.kill(pid, 'SIGCONT')
  }
}

/** Waits until the condition is true; throws if that takes longer than the limit. */
export async function until(condition: () => Promise<boolean>, withinMs = 300_000): Promise<void> {
  const deadline = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('the condition was not met in time')
    await setTimeout(20)
  }
}

const TICK_MS = 50

/**
 * Like `timed`, for time limits. Counts the time by short timers, one after the other: while the machine stands still,
 * or is so busy that the timers of the service come late, these come late too.
 */
export async function timedByTicks<T>(operation: Promise<T>): Promise<{ value: T; ms: number }> {
  let ms = 0
  let isOver = false
  void (async () => {
    for (; !isOver; ms += TICK_MS) await setTimeout(TICK_MS)
  })()
  try {
    return { value: await operation, ms }
  } finally {
    isOver = true
  }
}

export async function timed<T>(operation: Promise<T>): Promise<{ value: T; ms: number }> {
  const start = performance.now()
  const value = await operation
  return { value, ms: performance.now() - start }
}
