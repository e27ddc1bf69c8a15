// Opens what the service needs: the hasher, the database, the certificate, the page, the clock and the keys.
import { availableParallelism } from 'node:os'
import { ALL_TOKENS, checkTokens } from '../admin/check-tokens.ts'
import type { Hasher } from '../bcrypt/hasher.ts'
import { openHasher } from '../bcrypt/open-hasher.ts'
import type { Config, TlsFiles } from '../config/config.ts'
import { describeProgress, type MigrationProgress } from '../domain/migration.ts'
import { openTls } from '../http/connection/served-tls.ts'
import { loadPage } from '../http/page/page.ts'
import { checkKeys } from '../keys/check-keys.ts'
import { ensureKeyFile, explainKeyFile, watchKeys } from '../keys/key-file.ts'
import type { Log } from '../log/log.ts'
import { createMetrics } from '../metrics/metrics.ts'
import { checkStorage, explainDatabase, type openServiceStore } from '../storage/open-store.ts'
import { createWriteFaults } from '../storage/write-faults.ts'
import { messageOf } from '../system/files.ts'
import { openClusterClock } from './cluster-clock.ts'
import { observeHasher, observeStore } from './observe.ts'
import { actOn, failWith } from './start.ts'

export type Parts = Awaited<ReturnType<typeof openParts>>

/** On PostgreSQL the service uses the database's clock instead of `machineClock`, see cluster-clock.ts. */
type Given = {
  config: Config
  log: Log
  machineClock: () => Date
  openStore: typeof openServiceStore
}

/** Whatever has been opened is closed with `opened`. */
export async function openParts(
  { config, log, machineClock, openStore }: Given,
  opened: AsyncDisposableStack,
) {
  const metrics = createMetrics(config.database.engine)
  // Its self-test takes a while, so the rest of the start runs beside it.
  const openingHasher = startHasher(config, log, opened)
  const failDatabase = failWith(error => `${explainDatabase(config.database, error)}.`)
  const failFile = (what: string) =>
    failWith(error => `${what} cannot be used: ${messageOf(error)}`)

  let readClockSoon = () => {}
  const database = opened.adopt(
    await openStore(config.database, error => {
      log.warn({ event: 'database.connection_lost', err: error })
      // The next connection may be to another server, with a clock of its own.
      readClockSoon()
    }).catch(failDatabase),
    it => it.close(),
  )
  const writeFaults = createWriteFaults()
  const store = observeStore(metrics, database, writeFaults.report)
  const openCertificate = async (files: TlsFiles | null) =>
    opened.adopt(
      await openTls(config, files, log, machineClock).catch(failFile('The TLS certificate')),
      it => it.close(),
    )
  const tls = await openCertificate(config.tls)
  const adminTls = config.adminTls ? await openCertificate(config.adminTls) : tls
  const [page, firstPage] = await Promise.all([
    loadPage(config).catch(failFile('The login page or its BRAND_LOGO_FILE')),
    store.migrations
      .apply(progress => logMigration(log, progress))
      .then(() => store.users.list({}, { after: '', limit: 1 }, machineClock()))
      .catch(failDatabase),
  ])
  const hasUsers = firstPage.users.length > 0
  actOn(log, await checkStorage(config.database).catch(failDatabase))
  const deviceKey = await store.devices.readKey().catch(failDatabase)
  const clusterClock = opened.adopt(
    await openClusterClock(store.maintenance, machineClock, log).catch(failDatabase),
    it => it.close(),
  )
  readClockSoon = clusterClock.readSoon
  const now = clusterClock.now()
  await makeFirstKeys(config, log, now)
  const keys = opened.adopt(await openKeys(config, log, now, hasUsers), it => it.close())
  const adminTokens =
    config.adminPort > 0 ? await store.adminTokens.list(ALL_TOKENS).catch(failDatabase) : []
  actOn(log, ...checkTokens(config, adminTokens, now))
  const hasher = observeHasher(metrics, await openingHasher)
  logSpeed(log, hasher)
  return {
    ...{ metrics, hasher, database, store, writeFaults, tls, adminTls, page },
    ...{ hasUsers, deviceKey, clusterClock, machineClock, keys, adminTokens },
  }
}

function startHasher(config: Config, log: Log, opened: AsyncDisposableStack) {
  const opening = openHasher(
    config.passwordEngine,
    availableParallelism(),
    warning => log.warn({ event: 'service.warning' }, warning),
    error => log.error({ event: 'hashing.thread_lost', err: error }),
  )
  // The caller awaits it last; if the start fails before that, its error is the one to report.
  const openedOrNull = opening.catch(() => null)
  opened.defer(async () => (await openedOrNull)?.close())
  return opening
}

function logSpeed(log: Log, hasher: Hasher): void {
  const { name: engine, threads } = hasher
  const roundMs = hasher.roundMs(0).map(ms => Number(ms.toFixed(4)))
  log.info(
    { event: 'hashing.measured', engine, threads, roundMs },
    `hashes at a time: ${threads} threads × ${roundMs.length}`,
  )
}

function failKeys(path: string) {
  return failWith(error => `${explainKeyFile(path, error)}.`)
}

async function makeFirstKeys(config: Config, log: Log, now: Date): Promise<void> {
  const { signingKeysFile: path, nodeEnv } = config
  if (nodeEnv === 'production') return
  const made = await ensureKeyFile(path, now).catch(failKeys(path))
  if (made) log.info({ event: 'keys.created', path }, `made new signing keys in ${path}`)
}

/** A service with users may have used its keys for long, so short RSA keys stay valid there. */
async function openKeys(config: Config, log: Log, now: Date, hasUsers: boolean) {
  const { signingKeysFile: path } = config
  actOn(log, await checkKeys(config, now))
  return watchKeys(path, hasUsers, error => {
    if (error) log.error({ event: 'keys.reload_failed', err: error }, `${path}: ${error.message}`)
    else log.info({ event: 'keys.reloaded' })
  }).catch(failKeys(path))
}

function logMigration(log: Log, progress: MigrationProgress): void {
  const { kind, ...facts } = progress
  const sentence = describeProgress(progress)
  if (kind === 'applying') log.info({ event: 'database.migrating', ...facts }, sentence)
  else log.warn({ event: 'database.migration_waiting', ...facts }, sentence)
}
