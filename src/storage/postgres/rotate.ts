// Replaces a refresh token in PostgreSQL, in one statement.
import { sql } from 'kysely'
import { isLive } from '../sql/live-session.ts'
import { prepare } from '../sql/prepared.ts'
import type { Rotation } from '../sql/refresh-tokens.ts'

/**
 * Returns a row if the token was replaced. The session's row is locked before its tokens, as by the end of a
 * session, so that the two happen one after the other. Of parallel rotations of one token, the second one
 * waits for this lock and then finds the token revoked.
 */
export const rotate = prepare<Rotation, { id: string }>((db, values) =>
  sql<{ id: string }>`with live as materialized (
      select id, user_id from sessions
      where id = ${values.sessionId} and ${isLive(values.now)} for no key update
    ),
    rotated as (
      update refresh_tokens set revoked_at = ${values.now}, successor_id = ${values.successorId}
      from live where refresh_tokens.id = ${values.id} and revoked_at is null
      returning live.id as session_id, live.user_id
    ),
    used as (
      update sessions set last_used_at = ${values.now}, idle_expires_at = ${values.expiresAt}
      from rotated where sessions.id = rotated.session_id
    )
    insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at)
    select ${values.successorId}::uuid, user_id, session_id, ${values.digest}::text, ${values.keyId}::text,
      ${values.issuedAt}::timestamptz, ${values.expiresAt}::timestamptz
    from rotated returning id`.compile(db),
)
