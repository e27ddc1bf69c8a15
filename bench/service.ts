// Starts the service as an operator does, on its own database with users.
import { mkdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineName } from '../src/storage/sql/engine.ts'
import type { Target } from './connection.ts'
import { createDatabase, type Database, freePort } from './database.ts'
import { type StartedProcess, start, useRunFolder } from './processes.ts'
import { CHEAP_COST, COST, seedUsers } from './seed.ts'

const START_TIMEOUT_MS = 30_000
export const PROJECT = join(import.meta.dirname, '..')
/** As `npm start` runs it. */
export const LAUNCH = [
  process.execPath,
  '--max-semi-space-size=4',
  join(PROJECT, 'launch.cjs'),
  'src/main.ts',
]

export type Service = StartedProcess & { target: Target; ops: Target }

export type Deployment = {
  engine: EngineName
  database: Database
  dataDir: string
  start: (env?: Record<string, string>) => Promise<Service>
  remove: () => Promise<void>
}

/** Sets a cost that is not allowed in production. Everything but the hash stays the same. */
export const CHEAP = {
  NODE_ENV: 'test',
  BCRYPT_COST: String(CHEAP_COST),
  PASSWORD_ENGINE: 'native',
}

export async function deploy(engine: EngineName, users = 0, cost = COST): Promise<Deployment> {
  const folder = useRunFolder()
  const database = await createDatabase(engine)
  const { config } = database
  const dataDir =
    config.engine === 'sqlite' ? dirname(config.file) : join(folder, crypto.randomUUID())
  await mkdir(dataDir, { recursive: true })
  await seedUsers(database, users, cost)
  const started: Service[] = []

  return {
    engine,
    database,
    dataDir,
    async start(env = {}) {
      const databaseUrl = config.engine === 'postgres' ? config.url : ''
      const service = await startService({ DATA_DIR: dataDir, DATABASE_URL: databaseUrl, ...env })
      started.push(service)
      return service
    },
    async remove() {
      await Promise.all(started.map(({ stop }) => stop()))
    },
  }
}

export async function startService(env: Record<string, string>): Promise<Service> {
  const [port, opsPort] = [await freePort(), await freePort()]
  const service = start([...LAUNCH, 'serve'], {
    DRAIN_DELAY_MS: '0',
    ...env,
    PORT: String(port),
    OPS_PORT: String(opsPort),
  })
  await untilAnswered(`http://127.0.0.1:${opsPort}/readyz`, service)
  const certificate = await readFile(join(env.DATA_DIR ?? '', 'development-cert.pem'))
  return {
    ...service,
    target: { port, certificate },
    ops: { port: opsPort, certificate: null },
  }
}

export async function untilAnswered(url: string, { child }: StartedProcess): Promise<void> {
  const deadline = performance.now() + START_TIMEOUT_MS
  for (;;) {
    const isAnswered = await fetch(url).then(
      ({ status }) => status < 500,
      () => false,
    )
    if (isAnswered) return
    if (child.exitCode !== null) throw new Error(`ended before it answered at ${url}`)
    if (performance.now() > deadline) throw new Error(`no answer at ${url}`)
    await sleep(5)
  }
}

/** Starts a server of this folder, with the certificate that the service created in DATA_DIR. */
export async function startBare(file: string, service: Service, env: Record<string, string>) {
  const [port, plainPort] = [await freePort(), await freePort()]
  const bare = start(
    [process.execPath, '--max-semi-space-size=4', join(import.meta.dirname, file)],
    { ...env, PORT: String(port), PLAIN_PORT: String(plainPort) },
  )
  await untilAnswered(`http://127.0.0.1:${plainPort}/`, bare)
  return { ...bare, target: { port, certificate: service.target.certificate } }
}
