// The emails of users, in ranges of the table.
import { sql } from 'kysely'
import type { Engine } from './engine.ts'
import { formatTime } from './schema.ts'
import { storedRange } from './stored-ranges.ts'

export async function listEmails(engine: Engine, from: number, since?: Date) {
  const range = storedRange(engine, 'users', from)
  const rows = await engine.retrying(() =>
    engine.db
      .selectFrom('users')
      .select('email')
      .where(range.contains)
      .where(since ? mayHaveFailed(since) : sql<boolean>`true`)
      .execute(),
  )
  return { emails: rows.map(({ email }) => email), next: await range.next() }
}

/** A login sets the failures of a user to 0, an unlock does not. */
function mayHaveFailed(since: Date) {
  const moment = formatTime(since)
  return sql<boolean>`(failures_since_login > 0 or last_login_at > ${moment} or updated_at > ${moment})`
}
