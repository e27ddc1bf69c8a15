// Replaces a refresh token in PostgreSQL, in one statement.
import { sql } from 'kysely'
import { HAS_SECOND_FACTOR, isNotExpired } from '../sql/live-session.ts'
import { prepare } from '../sql/prepared.ts'
import type { ReplacedRow, Rotation } from '../sql/token-rows.ts'
import { isNotLockedByAdministrator } from '../sql/user-rows.ts'

/**
 * The session's row is locked before its tokens, as by the end of a session, so that the two happen one after the
 * other. Of parallel calls with one token, the second one waits for this lock and then finds the token revoked; it has
 * noted a use of the session, and no more.
 */
export const useToken = prepare<Rotation, ReplacedRow>(
  values => sql`with used as (
      update sessions set last_used_at = ${values.now}, idle_expires_at = ${values.expiresAt}
      where id = (
          select session_id from refresh_tokens
          where id = ${values.id} and token = ${values.digest} and revoked_at is null
        )
        and ended_at is null and ${isNotExpired(values.now)} and expires_at >= ${values.expiresAt}
        and (select is_active and ${isNotLockedByAdministrator(values.now)}
          from users where users.id = sessions.user_id)
      returning id, expires_at, user_id, amr
    ),
    replaced as (
      update refresh_tokens set revoked_at = ${values.now}, successor_id = ${values.successorId}
      from used where refresh_tokens.id = ${values.id} and revoked_at is null
      returning used.*
    ),
    issued as (
      insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at,
        request_digest, client_digest)
      select ${values.successorId}::uuid, user_id, id, ${values.successorDigest}::text,
        ${values.keyId}::text, ${values.issuedAt}::timestamptz, ${values.expiresAt}::timestamptz,
        ${values.requestDigest}::text, ${values.clientDigest}::text
      from replaced
    )
    select replaced.*, email, name, role, created_at as user_created_at,
      ${HAS_SECOND_FACTOR}
    from replaced join users on users.id = user_id`,
)
