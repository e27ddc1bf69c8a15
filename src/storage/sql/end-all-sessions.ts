// Ends all sessions of users in one statement, in the transaction of the change that requires it. A user has at most
// 1,000 live sessions (MAX_SESSIONS_PER_USER).
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isAmong } from './dialect.ts'
import type { Engine } from './engine.ts'
import { isNotExpired } from './live-session.ts'
import { formatTime, type Schema } from './schema.ts'

/**
 * The transaction must have locked the users, as a login does: so it sees the sessions of all earlier logins, and
 * later logins see the change. Returns the ids of the sessions that were live. Expired sessions are ended too, so that
 * no clock that is set back revives them.
 */
export async function endAllSessions(
  engine: Engine,
  trx: Kysely<Schema>,
  which: RawBuilder<boolean>,
  now: Date,
): Promise<string[]> {
  const moment = formatTime(now)
  const ended = await trx
    .updateTable('sessions')
    .set({ ended_at: moment })
    .where(
      isAmong(
        engine.name,
        'id',
        trx
          .selectFrom('sessions')
          .select('id')
          .where(which)
          .where('ended_at', 'is', null)
          // In the same order as every other statement, so that no deadlock occurs.
          .orderBy('created_at')
          .orderBy('id')
          .$if(engine.name === 'postgres', query => query.forNoKeyUpdate()),
      ),
    )
    .returning(['id', sql`${isNotExpired(moment)}`.as('was_live')])
    .execute()
  return ended.filter(({ was_live }) => was_live).map(({ id }) => id)
}

export function isOfUser(userId: string) {
  return sql<boolean>`user_id = ${userId}`
}
