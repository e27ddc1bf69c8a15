// A lock between processes: a file lock of the operating system, taken through SQLite. The system releases
// it when its process ends, so a crash leaves no stale lock behind.
import { lstatSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { Failure } from '../system/failures.ts'
import { copyOwner, messageOf } from '../system/files.ts'
import { repeat } from './sql/engine.ts'
import { isBusy } from './sqlite/file.ts'

/** A change holds the lock for some milliseconds; a holder that takes longer than this is stuck. */
const CHANGE_WAIT_MS = 20_000

/** Changes of this file run one after the other, in this process and others, so that none overwrites another. */
export async function withChangeLock<T>(
  path: string,
  change: () => Promise<T>,
  waitMs = CHANGE_WAIT_MS,
): Promise<T> {
  const lockFile = `${path}.lock`
  const lock = await takeLock(lockFile, waitMs)
  if (!lock) {
    throw new Failure(
      `Another process has held the lock ${lockFile} for ${waitMs / 1000} seconds. Wait until it has finished, or end it, and try again.`,
    )
  }
  try {
    await copyOwner(path, lockFile)
    return await change()
  } finally {
    lock.close()
  }
}

/**
 * Null if another caller holds the lock all that time. It is held until it is closed or the process ends. The file is
 * made if necessary and stays, empty: if it were removed, two processes could each lock a different file.
 */
export async function takeLock(file: string, waitMs: number): Promise<DatabaseSync | null> {
  let lock: DatabaseSync | undefined
  // Root may lock in a folder of another user. Through a link, that user could make root write elsewhere.
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) {
    throw new Failure(`The lock ${file} is a link: remove it and try again.`)
  }
  try {
    const opened = new DatabaseSync(file, { timeout: 0 })
    lock = opened
    await repeat(async () => opened.exec('begin exclusive'), isBusy, waitMs)
    return opened
  } catch (error) {
    lock?.close()
    if (isBusy(error)) return null
    throw new Failure(
      `The lock ${file} cannot be taken: ${messageOf(error)}. Check that you may write to it and to its folder.`,
    )
  }
}
