// The process that serves: config -> store -> keys -> app -> listen -> drain.
/// <reference lib="esnext.disposable" />
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { adviseOnTokenFile, readTokens } from './admin/tokens/token-file.ts'
import { openHasher } from './bcrypt/open-hasher.ts'
import { openClusterClock } from './cluster-clock.ts'
import { type Config, tokensAt } from './config/config.ts'
import { watchDescriptors } from './descriptors.ts'
import type { MaintenanceStore } from './domain/maintenance.ts'
import { closeServer, createWork, endThreads, trackConnections, trackThreads } from './drain.ts'
import { findExposure } from './files.ts'
import { buildAdminApp } from './http/admin/app.ts'
import { buildApp } from './http/app.ts'
import { openTls } from './http/connection/served-tls.ts'
import { expiryOf } from './http/connection/tls.ts'
import { createOpsServer } from './http/ops.ts'
import { pageAddress } from './http/page/address.ts'
import { loadPage } from './http/page/page.ts'
import { adviseOnKeyFile, ensureKeyFile, watchKeys } from './keys/key-file.ts'
import type { Log } from './log/log.ts'
import { createDeviceTokens } from './login/device.ts'
import { createHashQueue } from './login/hash-queue.ts'
import { login } from './login/login.ts'
import { createPace } from './login/pace.ts'
import { createPasswords } from './login/passwords.ts'
import { createThrottle } from './login/throttle.ts'
import { createMetrics } from './metrics/metrics.ts'
import { observeHasher, observeLogin, observeStore, observeThrottle } from './metrics/observe.ts'
import { createReadiness } from './readiness.ts'
import { lockDataFolder } from './service-lock.ts'
import { createRefreshLimit } from './session/refresh-limit.ts'
import { awaitEnd, ignoreInspectorSignal, isOnTerminal, switchLogLevel } from './signals.ts'
import { announceStart, failStart, listen, logMigration, StartError, urlOf } from './start.ts'
import { describeDatabase, openServiceStore } from './storage/open-store.ts'
import { createWriteFaults } from './storage/write-faults.ts'

const PURGE_EVERY_MS = 60_000
const PURGE_PAUSE_MS = 100
/** Time for load balancers to notice that the service is not ready, before it refuses requests. */
const DEFAULT_DRAIN_DELAY_MS = 2_000
/** Time for operations to end after the drain delay: the longest LOGIN_TIME_MS. */
const DRAIN_TIMEOUT_MS = 5_000
/** Time for connections to close after that, and for operations that began meanwhile. */
const CLOSE_TIMEOUT_MS = 500
/** For all this and the closing of the store. */
const STOP_TIMEOUT_MS = 6_000
/** For threads to end after that. With the default delay it is 9 s in all; supervisors wait for 10 s. */
const THREADS_TIMEOUT_MS = 1_000

export type Service = {
  url: string
  /** Loads the certificate and the signing keys again. */
  reload: () => void
  stop: (reason: string) => Promise<void>
}

/** Serves until a signal arrives, then ends the process. */
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
  const threads = trackThreads()
  // Installed before the start, because a supervisor may stop a service that is still starting.
  let reload = () => {}
  const asked = awaitEnd(() => reload())
  if (config.environment === 'production') ignoreInspectorSignal(log)
  switchLogLevel(log)

  const locking = lockDataFolder(config, log)
  const service = await Promise.race([locking.then(() => serve(config, log, clock)), asked])
  if (typeof service === 'string') log.info({ event: 'service.stopped', reason: service })
  else {
    reload = service.reload
    await service.stop(await asked)
    // Also keeps the lock from being collected as garbage before, which would release it.
    const lock = await locking
    lock?.close()
  }
  if (!(await endThreads(threads, THREADS_TIMEOUT_MS))) {
    log.error({ event: 'service.killed' }, 'a thread does not end: the disk may have failed')
    process.kill(process.pid, 'SIGKILL')
  }
  // An open connection to a database that does not answer would keep the process alive.
  process.exit(0)
}

/** `machineClock` is corrected by its offset to the database's clock, see cluster-clock.ts. */
export async function serve(
  config: Config,
  log: Log,
  machineClock: () => Date,
  open: typeof openServiceStore = openServiceStore,
): Promise<Service> {
  for (const warning of config.warnings) log.warn({ event: 'service.warning' }, warning)
  // Nothing balances the load of a service on a terminal. It is asked now, because the terminal may close.
  const drainDelayMs = config.drainDelayMs ?? (isOnTerminal() ? 0 : DEFAULT_DRAIN_DELAY_MS)
  // Closed in reverse order, when the service stops or its start fails.
  await using opened = new AsyncDisposableStack()
  // Its self-test takes a while, so the rest of the start runs beside it.
  const openingHasher = openHasher(
    config.passwordEngine,
    availableParallelism(),
    warning => log.warn({ event: 'service.warning' }, warning),
    error => log.error({ event: 'hashing.thread_lost', err: error }),
  )
  // It is awaited below; if the start fails before that, its error is the one to report.
  openingHasher.catch(() => {})
  opened.defer(() =>
    openingHasher.then(
      hasher => hasher.close(),
      () => {},
    ),
  )
  const metrics = createMetrics(config.database.engine)
  let measureClockSoon = () => {}
  const database = opened.adopt(
    await open(config.database, error => {
      log.warn({ event: 'database.connection_lost', err: error })
      // The next connection may be to another server, with a clock of its own.
      measureClockSoon()
    }),
    opened => opened.close(),
  )
  const writeFaults = createWriteFaults()
  const store = observeStore(metrics, database, writeFaults.report)
  const tls = opened.adopt(
    await openTls(config, log, machineClock).catch(failStart('The TLS certificate cannot be used')),
    followed => followed.close(),
  )
  const [page, firstPage] = await Promise.all([
    loadPage(config.page).catch(failStart('The login page or its BRAND_LOGO_FILE cannot be used')),
    store.migrations
      .apply(progress => logMigration(log, progress))
      .then(() => store.users.list({}, { after: '', limit: 1 }, machineClock()))
      .catch(failStart(`${describeDatabase(config.database)} cannot be used`)),
  ])
  const deviceKey = await store.devices
    .readKey()
    .catch(failStart(`${describeDatabase(config.database)} cannot be used`))
  const clusterClock = opened.adopt(
    await openClusterClock(store.maintenance, machineClock, log).catch(
      failStart(`${describeDatabase(config.database)} cannot be used`),
    ),
    measured => measured.close(),
  )
  measureClockSoon = clusterClock.measureSoon
  const clock = clusterClock.now
  const keys = opened.adopt(
    await openKeys(config, log, clock, firstPage.users.length > 0),
    watched => watched.close(),
  )

  const hasher = observeHasher(metrics, await openingHasher)
  const hashQueue = createHashQueue(
    hasher,
    { cost: config.bcryptCost, loginTimeMs: config.loginTimeMs },
    undefined,
    metrics.hashStarted,
  )
  let isStopping = false
  const readiness = createReadiness(
    async () => {
      clusterClock.check()
      writeFaults.check()
      await store.maintenance.checkWritable(clock())
    },
    () => isStopping,
    log,
  )
  // On the machine's clock, like the time of a scrape.
  let purgedAt = machineClock()
  metrics.read({
    queueDepth: hashQueue.depth,
    certificateExpiry() {
      const material = tls.current()
      return material && expiryOf(material.cert)
    },
    signingSince: () => new Date(keys.signingAt(clock()).accessKey.signsFrom * 1000),
    wasReady: readiness.wasReady,
    clockOffsetMs: clusterClock.offsetMs,
    purgedAt: () => purgedAt,
    lostLogLines: log.countLost,
    // A stalled disk must not delay a scrape.
    connections:
      config.database.engine === 'postgres' ? database.maintenance.countConnections : null,
  })
  let isRefusing = false
  const work = createWork()
  const { budgets, maxSessionsPerUser, bcryptCost, loginTimeMs } = config
  const tokens = { ...config.tokens }
  const loginDeps = {
    store,
    throttle: observeThrottle(metrics, createThrottle(store.attempts, clock)),
    passwords: createPasswords(bcryptCost),
    hashQueue,
    pace: createPace(),
    deviceTokens: createDeviceTokens(deviceKey),
    keys,
    budgets,
    maxSessionsPerUser,
    loginTimeMs,
    tokens,
    clock,
  }
  const serverDeps = {
    config,
    tls: tls.current(),
    log,
    metrics,
    isStopping: () => isStopping,
    isRefusing: () => isRefusing,
    track: work.run,
  }
  const app = await buildApp({
    ...serverDeps,
    page,
    sessions: { store, keys, tokens, clock, limit: createRefreshLimit(clock) },
    login: observeLogin(metrics, attempt => login(loginDeps, attempt)),
  })
  if (config.adminPort > 0) await checkAdminTokens(config, log)
  const admin = config.adminPort > 0 ? buildAdminApp({ ...serverDeps, store, clock }) : null
  const ops = createOpsServer({
    metrics,
    checkReady: readiness.check,
    opsHost: config.opsHost,
    log,
  })

  opened.defer(() => {
    ops.close()
    ops.closeAllConnections()
  })
  // Operations that began while connections closed still end before the store closes.
  opened.defer(async () => {
    await work.finish(CLOSE_TIMEOUT_MS)
  })
  const apps = admin ? [app, admin] : [app]
  await Promise.all(apps.map(it => it.ready()))
  const closers = apps.map(it => {
    tls.serveOn(it.server)
    const connections = trackConnections(it.server)
    return () => closeServer(it, connections, CLOSE_TIMEOUT_MS)
  })
  opened.defer(async () => {
    await Promise.all(closers.map(close => close()))
  })
  opened.adopt(watchDescriptors(log), watched => watched.close())
  const port = await listen(app.server, config.port, config.host, 'PORT')
  // Connections are accepted in a later turn of the event loop, so no request has seen the default issuer.
  Object.assign(tokens, tokensAt(port, config))
  if (config.opsPort > 0) await listen(ops, config.opsPort, config.opsHost, 'OPS_PORT')
  if (admin) await listen(admin.server, config.adminPort, config.adminHost, 'ADMIN_PORT')

  let isPurging = false
  const purging = setInterval(() => {
    if (isPurging) return
    isPurging = true
    // The end does not wait for it: its batches are transactions.
    purgeAll(store.maintenance, clock, () => isStopping)
      .then(() => {
        purgedAt = machineClock()
      })
      .catch(error => log.error({ event: 'purge.failed', err: error }))
      .finally(() => {
        isPurging = false
      })
  }, PURGE_EVERY_MS).unref()

  const url = urlOf(config.host, port, tls.current() !== null)
  announceStart(log, {
    url,
    page: pageAddress(config, tls.current(), port),
    engine: config.database.engine,
    admin: admin && urlOf(config.adminHost, config.adminPort, true),
    hasUsers: firstPage.users.length > 0,
  })

  const closing = opened.move()
  async function finish(): Promise<void> {
    const unfinished = await work.finish(DRAIN_TIMEOUT_MS)
    if (unfinished > 0) log.error({ event: 'service.cut_off', unfinished })
    await closing.disposeAsync()
  }
  async function drain(reason: string): Promise<void> {
    log.info({ event: 'service.stopping', reason, delayMs: drainDelayMs })
    isStopping = true
    clearInterval(purging)
    if (drainDelayMs > 0) await sleep(drainDelayMs)
    isRefusing = true
    await Promise.race([finish(), sleep(STOP_TIMEOUT_MS, undefined, { ref: false })])
    log.info({ event: 'service.stopped' })
  }
  let stopped: Promise<void> | null = null
  return {
    url,
    reload() {
      tls.reload()
      keys.reload()
    },
    /** A second call waits for the first one, so a second signal does not cut logins off. */
    stop: reason => {
      stopped ??= drain(reason)
      return stopped
    },
  }
}

/** Purges until nothing is due. The pauses between the batches leave the database to logins. */
async function purgeAll(
  maintenance: MaintenanceStore,
  clock: () => Date,
  mustStop: () => boolean,
): Promise<void> {
  while (!mustStop()) {
    const purged = await maintenance.purge(clock())
    if (!purged || purged.isDone) return
    await sleep(PURGE_PAUSE_MS)
  }
}

/** A service with users may have used its keys for long, so short RSA keys stay valid there. */
async function openKeys(config: Config, log: Log, clock: () => Date, hasUsers: boolean) {
  const { signingKeysFile: path, environment } = config
  try {
    if (environment !== 'production' && (await ensureKeyFile(path, clock()))) {
      log.info({ event: 'keys.created', path }, `made new signing keys in ${path}`)
    }
    const advice = await findExposure(path)
    if (advice) {
      if (environment === 'production') throw new StartError(advice)
      log.warn({ event: 'service.warning' }, advice)
    }
    return await watchKeys(path, hasUsers, error => {
      if (error) log.error({ event: 'keys.reload_failed', err: error }, `${path}: ${error.message}`)
      else log.info({ event: 'keys.reloaded' })
    })
  } catch (error) {
    if (error instanceof StartError || !(error instanceof Error)) throw error
    throw new StartError(
      `The signing keys in ${path} cannot be used: ${error.message}. ${adviseOnKeyFile(error)}.`,
    )
  }
}

/** Tokens can be added later: the file is looked at on each request. */
async function checkAdminTokens(config: Config, log: Log): Promise<void> {
  const { adminTokensFile: path, environment } = config
  const problem = await readTokens(path)
    .then(() => findExposure(path))
    .catch(
      (error: Error) =>
        `The admin tokens in ${path} cannot be used: ${error.message}. ${adviseOnTokenFile(error)}.`,
    )
  if (!problem) return
  if (environment === 'production') throw new StartError(problem)
  log.warn({ event: 'service.warning' }, problem)
}
