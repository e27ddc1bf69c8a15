// The process that serves: open, compose, listen, drain.
/// <reference lib="esnext.disposable" />

import type { Config } from '../config/config.ts'
import type { Log } from '../log/log.ts'
import { openServiceStore } from '../storage/open-store.ts'
import { composeServers } from './compose.ts'
import { createDrain, endThreads, trackThreads } from './drain.ts'
import { announceStart, openPorts } from './listen.ts'
import { openParts } from './open.ts'
import { startPurging } from './purging.ts'
import { lockDataFolder } from './service-lock.ts'
import { awaitEnd } from './signals.ts'

export type Service = {
  url: string
  /** Loads the certificate and the signing keys again. */
  reload: () => void
  /** A second call waits for the first one, so a second signal does not cut logins off. */
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
  if (!(await endThreads(threads))) {
    log.error({ event: 'service.killed' }, 'a thread does not end: the disk may have failed')
    process.kill(process.pid, 'SIGKILL')
  }
  // An open connection to a database that does not answer would keep the process alive.
  process.exit(0)
}

/** `openStore`: tests open a store without a thread. */
export async function serve(
  config: Config,
  log: Log,
  machineClock: () => Date,
  openStore: typeof openServiceStore = openServiceStore,
): Promise<Service> {
  for (const warning of config.warnings) log.warn({ event: 'service.warning' }, warning)
  const given = { config, log, machineClock, openStore }
  const drain = createDrain(config.drainDelayMs, log)
  // Closed in reverse order, when the service stops or its start fails.
  await using opened = new AsyncDisposableStack()

  const parts = await openParts(given, opened)
  const purging = opened.adopt(startPurging(config, parts, log), it => it.close())
  const servers = await composeServers(given, parts, purging.purgedAt, drain)
  const port = await openPorts(given, parts, servers, drain, opened)
  const url = announceStart(given, parts, port)
  const closing = opened.move()
  return {
    url,
    reload() {
      for (const certificate of new Set([parts.tls, parts.adminTls])) certificate.reload()
      parts.keys.reload()
    },
    stop: reason => drain.stop(reason, () => closing.disposeAsync()),
  }
}
