// The process that serves: config -> store -> keys -> app -> listen -> drain.
import { mkdir } from 'node:fs/promises'
import type { Server } from 'node:net'
import { availableParallelism } from 'node:os'
import type { Config } from './config.ts'
import { buildApp } from './http/app.ts'
import { createOpsServer } from './http/ops.ts'
import { loadTls } from './http/tls.ts'
import type { Log } from './log.ts'
import { login } from './login/login.ts'
import { createPasswords } from './login/passwords.ts'
import { createThrottle } from './login/throttle.ts'
import { ensureKeyFile, isOpenToOthers, watchKeys } from './session/key-file.ts'
import { createRefreshLimit } from './session/refresh-limit.ts'
import { describeDatabase, openStore } from './storage/open-store.ts'

const SWEEP_EVERY_MS = 60_000
/** Below the 10 s in which a supervisor may expect the process to be gone. */
const DRAIN_TIMEOUT_MS = 8_000

export type Service = { url: string; stop: (reason: string) => Promise<void> }

/** What a person can mend: shown without a stack trace. */
export class StartError extends Error {}

export async function serve(config: Config, log: Log, clock: () => Date): Promise<Service> {
  for (const warning of config.warnings) log.warn({ event: 'service.warning' }, warning)
  await mkdir(config.dataDir, { recursive: true })

  const store = openStore(config.database, error =>
    log.warn({ event: 'database.connection_lost', err: error }),
  )
  // The decoy takes as long as a login; it is made while the rest gets ready.
  const decoyMade = createPasswords(config.bcryptCost, availableParallelism())
  await store.migrate().catch(error => {
    throw new StartError(`${describeDatabase(config.database)} cannot be used: ${error.message}`)
  })
  const [tls, keys, passwords] = await Promise.all([
    loadTls(config, clock()).catch(error => {
      throw new StartError(`The TLS certificate cannot be used: ${error.message}`)
    }),
    openKeys(config, log, clock),
    decoyMade,
  ])

  let isDraining = false
  let inFlight = 0
  const { budgets, tokens } = config
  const loginDeps = {
    store,
    throttle: createThrottle(store, clock),
    passwords,
    keys,
    budgets,
    tokens,
    clock,
  }
  const app = await buildApp({
    config,
    tls,
    log,
    sessions: { store, keys, tokens, clock, limit: createRefreshLimit(clock) },
    isDraining: () => isDraining,
    async login(attempt) {
      inFlight++
      try {
        return await login(loginDeps, attempt)
      } finally {
        inFlight--
      }
    },
  })
  const ops = createOpsServer({
    async checkReady() {
      if (isDraining) throw new Error('draining')
      await store.checkWritable(clock())
    },
    onNotReady: error => log.warn({ event: 'service.not_ready', err: error }),
  })

  await app.ready()
  await listen(app.server, config.port, config.host, 'PORT')
  if (config.opsPort > 0) await listen(ops, config.opsPort, config.opsHost, 'OPS_PORT')
  const sweeping = setInterval(() => {
    store.purge(clock()).catch(error => log.error({ event: 'purge.failed', err: error }))
  }, SWEEP_EVERY_MS).unref()

  const url = addressOf(app.server, config.host, tls !== null)
  log.info(
    { event: 'service.started', address: url, database: config.database.engine },
    `listening on ${url}`,
  )

  async function drain(reason: string): Promise<void> {
    log.info({ event: 'service.stopping', reason })
    isDraining = true
    clearInterval(sweeping)
    const deadline = performance.now() + DRAIN_TIMEOUT_MS
    while (inFlight > 0 && performance.now() < deadline) {
      await new Promise(resolve => setTimeout(resolve, 20))
    }
    const closed = app.close()
    app.server.closeIdleConnections()
    setTimeout(() => app.server.closeAllConnections(), 1_000).unref()
    await closed
    ops.close()
    ops.closeAllConnections()
    keys.close()
    await store.close()
    log.info({ event: 'service.stopped' })
  }
  let stopped: Promise<void> | null = null
  return {
    url,
    /** A repeated call waits for the first: a second signal must not cut logins off. */
    stop: reason => {
      stopped ??= drain(reason)
      return stopped
    },
  }
}

async function openKeys(config: Config, log: Log, clock: () => Date) {
  const { signingKeysFile: path, environment } = config
  try {
    if (environment !== 'production' && (await ensureKeyFile(path, clock()))) {
      log.info({ event: 'keys.created', path }, `made new signing keys in ${path}`)
    }
    if (await isOpenToOthers(path)) {
      const advice = `${path} can be read by others: chmod 600 it`
      if (environment === 'production') throw new StartError(advice)
      log.warn({ event: 'service.warning' }, advice)
    }
    return await watchKeys(path, error => {
      if (error) log.error({ event: 'keys.reload_failed', err: error }, `${path}: ${error.message}`)
      else log.info({ event: 'keys.reloaded' })
    })
  } catch (error) {
    if (error instanceof StartError || !(error instanceof Error)) throw error
    throw new StartError(
      `The signing keys in ${path} cannot be used: ${error.message}. "npm run admin -- keys rotate" creates the file.`,
    )
  }
}

function addressOf(server: Server, host: string, isEncrypted: boolean): string {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  const name = host.includes(':') ? `[${host}]` : host
  return `${isEncrypted ? 'https' : 'http'}://${name}:${address.port}`
}

async function listen(server: Server, port: number, host: string, variable: string): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(port, host, resolve)
    })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : ''
    if (code === 'EADDRINUSE') {
      throw new StartError(`Port ${port} is taken: stop the other process or set ${variable}.`)
    }
    throw error
  }
}
