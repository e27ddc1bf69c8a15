// Group commit: operations that arrive while a commit is synced share the next transaction, and so one sync.
// Each is answered after the sync. One that fails is undone alone; if the commit fails, all of them fail.
import type { Kysely } from 'kysely'
import type { Schema } from '../sql/schema.ts'
import { checkDeadline, currentDeadline } from './deadline.ts'
import type { RunBound, SqliteFile } from './file.ts'

type Waiting = {
  operation: (run: RunBound) => unknown
  resolve: (result: unknown) => void
  reject: (error: unknown) => void
}

/** Returns a function that runs an operation in the next group. */
export function groupCommits(db: Kysely<Schema>, database: SqliteFile) {
  const waiting: Waiting[] = []

  async function commitAll(): Promise<void> {
    const group = waiting.splice(0)
    try {
      const results = database.transact(group.map(({ operation }) => operation))
      for (const [index, { resolve, reject }] of group.entries()) {
        const result = results[index]
        if (result?.status === 'fulfilled') resolve(result.value)
        else reject(result?.reason)
      }
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }

  // Kysely lends its only connection to one task at a time.
  const commitSoon = () =>
    db
      .connection()
      .execute(commitAll)
      .catch(error => {
        for (const { reject } of waiting.splice(0)) reject(error)
      })

  return <T>(operation: (run: RunBound) => T): Promise<T> =>
    new Promise((resolve, reject) => {
      // Runs after all messages that have arrived at this thread.
      if (waiting.length === 0) setImmediate(commitSoon)
      const deadlineMs = currentDeadline()
      const inTime = (run: RunBound) => {
        // It may have waited for a transaction of Kysely, or for a lock.
        checkDeadline(deadlineMs)
        return operation(run)
      }
      waiting.push({ operation: inTime, resolve: result => resolve(result as T), reject })
    })
}
