// One transaction in few round trips: its statements are sent without waiting for the answers before them (`pipeline` in
// pool.ts), except where a step needs rows. Its locks last until the commit: one round trip, or more if a session is opened.
// A `begin` that an administrator cancels is the one error that does not stop the statements sent with it: they are kept.
// They count a failure of the user, note a login, remove a code, or open a session without a token, which is of no use.
import type { Kysely } from 'kysely'
import type { Steps } from '../sql/prepared.ts'
import type { Schema } from '../sql/schema.ts'
import type { Connection } from './connection.ts'

/** The connections never have `off`, which does not even wait for the disk (`settings.ts`). */
const BEGIN = { durably: 'begin', locally: 'begin; set local synchronous_commit to local' }

export async function runTransaction<T>(
  connection: Connection,
  db: Kysely<Schema>,
  commit: keyof typeof BEGIN,
  steps: Steps<T>,
): Promise<T> {
  const sent: Promise<unknown>[] = [connection.query(BEGIN[commit], [])]
  let isEnding = false
  try {
    let next = steps.next()
    for (; !next.done; next = steps.next()) {
      const step = next.value
      const { sql, parameters, name } = step.bind(db)
      const answer = connection.query(sql, parameters, name).then(({ rows }) => {
        step.rows = rows
      })
      sent.push(answer)
      if (step.isAwaited) await answered(sent)
    }
    isEnding = true
    sent.push(connection.query('commit', []))
    await answered(sent)
    return next.value
  } catch (error) {
    // After an error of a statement, the server takes the commit that follows it for a rollback.
    if (!isEnding) sent.push(connection.query('rollback', []))
    await Promise.allSettled(sent)
    throw error
  }
}

/** Waits for all answers, and rejects with the first error: the others follow from it. */
async function answered(sent: Promise<unknown>[]): Promise<void> {
  for (const answer of await Promise.allSettled(sent.splice(0))) {
    if (answer.status === 'rejected') throw answer.reason
  }
}
