// Sessions and their refresh tokens.
import type { Kysely, Transaction } from 'kysely'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'
import type { NewRefreshToken, NewSession, Store } from './store.ts'
import { toText } from './values.ts'

type Sessions = Pick<Store, 'countLiveSessions'>

export function createSessions({ db }: Engine): Sessions {
  return {
    async countLiveSessions(userId, now) {
      const { sessions } = await db
        .selectFrom('sessions')
        .select(count => count.fn.countAll().as('sessions'))
        .where('user_id', '=', userId)
        .where('ended_at', 'is', null)
        .where('expires_at', '>', toText(now))
        .executeTakeFirstOrThrow()
      return Number(sessions)
    },
  }
}

export async function endSessionsOf(trx: Kysely<Schema>, userId: string, now: Date): Promise<void> {
  await trx
    .updateTable('sessions')
    .set({ ended_at: toText(now) })
    .where('user_id', '=', userId)
    .where('ended_at', 'is', null)
    .execute()
  await trx
    .updateTable('refresh_tokens')
    .set({ revoked_at: toText(now) })
    .where('user_id', '=', userId)
    .where('revoked_at', 'is', null)
    .execute()
}

export async function insertSession(
  trx: Transaction<Schema>,
  session: NewSession,
  refreshToken: NewRefreshToken,
  now: Date,
): Promise<void> {
  await trx
    .insertInto('sessions')
    .values({
      id: session.id,
      user_id: session.userId,
      created_at: toText(session.createdAt),
      last_used_at: toText(session.createdAt),
      expires_at: toText(session.expiresAt),
      user_agent: session.userAgent,
      ip: session.ip,
    })
    .execute()
  await trx
    .insertInto('refresh_tokens')
    .values({
      id: refreshToken.id,
      user_id: session.userId,
      session_id: session.id,
      token: refreshToken.digest,
      key_id: refreshToken.keyId,
      expires_at: toText(refreshToken.expiresAt),
      created_at: toText(now),
    })
    .execute()
}
