// A lock between processes: the operating system's own, through SQLite. It ends with its holder, so
// that a crash leaves nothing to clear away and no rule has to guess which lock is stale.
import { lstatSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { repeat } from '../storage/sql/engine.ts'
import { isBusy } from '../storage/sqlite/file.ts'

/** Says why a lock could not be taken, for people. */
export class FileLockError extends Error {}

/**
 * Runs the operation while nothing else holds the lock, in this process or another. The file is made
 * if need be and stays, empty: if it were removed, two processes could lock a file of their own each.
 */
export async function withFileLock<T>(
  file: string,
  waitMs: number,
  operation: () => Promise<T>,
): Promise<T> {
  const lock = await takeLock(file, waitMs)
  try {
    return await operation()
  } finally {
    lock.close()
  }
}

async function takeLock(file: string, waitMs: number): Promise<DatabaseSync> {
  let lock: DatabaseSync | undefined
  // Root may be asked to lock in a folder of another user, who could let a link lead anywhere.
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) {
    throw new FileLockError(`The lock ${file} is a link: remove it and try again.`)
  }
  try {
    const opened = new DatabaseSync(file, { timeout: 0 })
    lock = opened
    await repeat(async () => opened.exec('begin exclusive'), isBusy, waitMs)
    return opened
  } catch (error) {
    lock?.close()
    if (isBusy(error)) {
      const seconds = waitMs / 1000
      throw new FileLockError(
        `Another process has held the lock ${file} for ${seconds} seconds. Wait until it has finished, or end it, and try again.`,
      )
    }
    const reason = error instanceof Error ? error.message : String(error)
    throw new FileLockError(
      `The lock ${file} cannot be taken: ${reason}. Check that you may write to it and to its folder.`,
    )
  }
}
