// One service per SQLite database: a second one, started by mistake, would share the users of the first.
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import type { Log } from '../log/log.ts'
import { takeLock } from '../storage/file-lock.ts'
import { Failure } from '../system/failures.ts'
import { replaceFile } from '../system/files.ts'
import { makeDataFolder } from './data-folder.ts'
import { actOn } from './start.ts'

/** A service that was asked to end needs 9 s at most with the default drain delay. */
const WAIT_MS = 10_000

/**
 * Makes the data folder and, for SQLite, locks it until the lock is closed or this process ends. Null if no lock
 * is needed. A killed process leaves no lock, because the operating system holds it.
 */
export async function lockDataFolder(
  config: Config,
  log: Log,
): Promise<{ close: () => void } | null> {
  actOn(log, await makeDataFolder(config))
  const { dataDir, database } = config
  if (database.engine !== 'sqlite') return null
  const lockFile = join(dataDir, 'service.lock')
  // Beside the lock, which cannot be read while it is held. It only names the process in messages.
  const holderFile = join(dataDir, 'service.pid')
  const describeHolder = async () => {
    const holder = await readFile(holderFile, 'utf8').catch(() => 'unknown')
    return `Another service (process ${holder.trim()}) uses the SQLite database in ${dataDir}`
  }
  let lock = await takeLock(lockFile, 0)
  if (!lock) {
    const text = `${await describeHolder()}. Waiting ${WAIT_MS / 1000} s for its end.`
    log.warn({ event: 'service.warning' }, text)
    lock = await takeLock(lockFile, WAIT_MS)
  }
  if (!lock) {
    throw new Failure(
      `${await describeHolder()}. Stop it first, or set another DATA_DIR. Several services can share a PostgreSQL (DATABASE_URL).`,
    )
  }
  await replaceFile(holderFile, `${process.pid} on ${hostname()}\n`, 0o600)
  return lock
}
