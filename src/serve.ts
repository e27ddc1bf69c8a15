// The process that serves: config -> store -> keys -> app -> listen -> drain.
/// <reference lib="esnext.disposable" />
import { mkdir } from 'node:fs/promises'
import type { Server } from 'node:net'
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from './config.ts'
import { closeServer, createWork, trackConnections } from './drain.ts'
import { codeOf, hasCode } from './error-code.ts'
import { buildApp } from './http/app.ts'
import { createOpsServer, shareChecks } from './http/ops.ts'
import { loadPage } from './http/page.ts'
import { loadTls } from './http/tls.ts'
import type { Log } from './log.ts'
import { createHashQueue } from './login/hash-queue.ts'
import { login } from './login/login.ts'
import { createPasswords } from './login/passwords.ts'
import { createThrottle } from './login/throttle.ts'
import { ensureKeyFile, isOpenToAll, isOpenToOthers, watchKeys } from './session/key-file.ts'
import { createRefreshLimit } from './session/refresh-limit.ts'
import { describeDatabase, openStore } from './storage/open-store.ts'
import type { Store } from './storage/store.ts'

const PURGE_EVERY_MS = 60_000
const PURGE_PAUSE_MS = 100
// Together below the 10 s in which a supervisor may expect the process to be gone: so long logins
// may go on, then so long connections may close by themselves.
const DRAIN_TIMEOUT_MS = 7_000
const CLOSE_TIMEOUT_MS = 1_000

export type Service = { url: string; stop: (reason: string) => Promise<void> }

/** What a person can mend: shown without a stack trace. */
export class StartError extends Error {}

/** Serves until a signal asks for the end, and ends the process. */
export async function serveUntilSignal(
  config: Config,
  log: Log,
  clock: () => Date,
): Promise<never> {
  const crash = (error: unknown) => {
    log.fatal({ event: 'service.crashed', err: error })
    process.exit(1)
  }
  process.on('uncaughtException', crash).on('unhandledRejection', crash)
  // Before the start: a supervisor may change its mind as soon as it sees the first line. They stay,
  // so that a repeated signal does not end the process at once.
  const asked = new Promise<string>(resolve => {
    process.on('SIGTERM', resolve).on('SIGINT', resolve)
  })

  const service = await Promise.race([serve(config, log, clock), asked])
  if (typeof service === 'string') log.info({ event: 'service.stopped', reason: service })
  else await service.stop(await asked)
  // A connection to a database that does not answer would keep the process.
  process.exit(0)
}

export async function serve(config: Config, log: Log, clock: () => Date): Promise<Service> {
  for (const warning of config.warnings) log.warn({ event: 'service.warning' }, warning)
  // It takes as long as a login: the rest gets ready meanwhile.
  const hashingReady = prepareHashing(config.bcryptCost)
  // Awaited below; a start that fails before that has its own error to tell.
  hashingReady.catch(() => {})
  // Closed in reverse, by the drain or by a start that fails half-way.
  await using opened = new AsyncDisposableStack()
  await mkdir(config.dataDir, { recursive: true }).catch(
    refuse(`The data folder ${config.dataDir} cannot be used`),
  )
  const store = opened.adopt(
    await openStore(config.database, error =>
      log.warn({ event: 'database.connection_lost', err: error }),
    ),
    database => database.close(),
  )
  const [tls, page] = await Promise.all([
    loadTls(config, clock()).catch(refuse('The TLS certificate cannot be used')),
    loadPage(config.brand).catch(refuse('The login page or its BRAND_LOGO_FILE cannot be used')),
    store.migrate().catch(refuse(`${describeDatabase(config.database)} cannot be used`)),
  ])
  if (
    config.environment === 'production' &&
    config.tls &&
    (await isOpenToAll(config.tls.keyFile))
  ) {
    throw new StartError(`${config.tls.keyFile} can be read by everybody: chmod 640 it`)
  }
  const keys = opened.adopt(await openKeys(config, log, clock), watched => watched.close())

  let isDraining = false
  const work = createWork()
  const { budgets, maxSessionsPerUser, tokens } = config
  const loginDeps = {
    store,
    throttle: createThrottle(store, clock),
    keys,
    budgets,
    maxSessionsPerUser,
    tokens,
    clock,
  }
  const app = buildApp({
    config,
    tls,
    log,
    page,
    sessions: { store, keys, tokens, clock, limit: createRefreshLimit(clock) },
    isDraining: () => isDraining,
    track: work.run,
    login: async attempt => login({ ...loginDeps, ...(await hashingReady) }, attempt),
  })
  const checkWritable = shareChecks(
    () => store.checkWritable(clock()),
    error => log.warn({ event: 'service.not_ready', err: error }),
  )
  const ops = createOpsServer({
    async checkReady() {
      if (isDraining) throw new Error('draining')
      await checkWritable()
    },
  })

  await Promise.all([app.ready(), hashingReady])
  opened.defer(() => {
    ops.close()
    ops.closeAllConnections()
  })
  // What slipped in while connections closed is still settled before the store goes.
  opened.defer(async () => {
    await work.finish(CLOSE_TIMEOUT_MS)
  })
  const connections = trackConnections(app.server)
  opened.defer(() => closeServer(app, connections, CLOSE_TIMEOUT_MS))
  await listen(app.server, config.port, config.host, 'PORT')
  if (config.opsPort > 0) await listen(ops, config.opsPort, config.opsHost, 'OPS_PORT')

  const purging = setInterval(() => {
    work
      .run(() => purgeAll(store, clock, () => isDraining))
      .catch(error => log.error({ event: 'purge.failed', err: error }))
  }, PURGE_EVERY_MS).unref()

  const url = addressOf(app.server, config.host, tls !== null)
  log.info(
    { event: 'service.started', address: url, database: config.database.engine },
    `listening on ${url}`,
  )

  const closing = opened.move()
  async function drain(reason: string): Promise<void> {
    log.info({ event: 'service.stopping', reason })
    isDraining = true
    clearInterval(purging)
    const unfinished = await work.finish(DRAIN_TIMEOUT_MS)
    if (unfinished > 0) log.error({ event: 'service.cut_off', unfinished })
    await closing.disposeAsync()
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

async function prepareHashing(cost: number) {
  const passwords = await createPasswords(cost)
  return { passwords, hashQueue: createHashQueue(availableParallelism(), passwords.estimateMs) }
}

/** Batch after batch, so that rows cannot come faster than they go; logins have their turn between. */
async function purgeAll(store: Store, clock: () => Date, mustStop: () => boolean): Promise<void> {
  while (!mustStop()) {
    const purged = await store.purge(clock())
    if (!purged || Object.values(purged).every(rows => rows === 0)) return
    await sleep(PURGE_PAUSE_MS)
  }
}

function refuse(what: string) {
  return (error: Error & { code?: string }): never => {
    // A host of several addresses fails with several errors, and with no word of its own.
    throw new StartError(`${what}: ${error.message || error.code}`)
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
      `The signing keys in ${path} cannot be used: ${error.message}. "npm run -s admin -- keys rotate" creates the file.`,
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
    if (hasCode(error, 'EADDRINUSE')) {
      throw new StartError(`Port ${port} is taken: stop the other process or set ${variable}.`)
    }
    const hostVariable = variable.replace('PORT', 'HOST')
    throw new StartError(
      `${host}:${port} cannot be listened on (${codeOf(error)}): set ${hostVariable} or ${variable}.`,
    )
  }
}
