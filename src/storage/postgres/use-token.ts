// Finds a refresh token in PostgreSQL and replaces it, in one statement.
import { sql } from 'kysely'
import { isLive } from '../sql/live-session.ts'
import { prepare } from '../sql/prepared.ts'
import {
  type Rotation,
  TOKEN_WITH_SESSION,
  type TokenRow,
  tokenColumns,
} from '../sql/token-rows.ts'
import { isNotLockedByAdministrator } from '../sql/user-rows.ts'

type Used = TokenRow & { is_replaced: boolean }

/**
 * The session's row is locked before its tokens, as by the end of a session, so that the two happen one after the
 * other. Of parallel calls with one token, the second one waits for this lock and then finds the token revoked; its
 * row shows the token as it was before.
 */
export const useToken = prepare<Rotation, Used>((db, values) =>
  sql<Used>`with live as materialized (
      select id, user_id from sessions
      where id = (
          select session_id from refresh_tokens
          where id = ${values.id} and token = ${values.digest} and revoked_at is null
        )
        and expires_at >= ${values.expiresAt} and ${isLive(values.now)}
        and (select is_active and ${isNotLockedByAdministrator(values.now)}
          from users where users.id = sessions.user_id)
      for no key update
    ),
    replaced as (
      update refresh_tokens set revoked_at = ${values.now}, successor_id = ${values.successorId}
      from live where refresh_tokens.id = ${values.id} and revoked_at is null
      returning live.id as session_id, live.user_id
    ),
    used as (
      update sessions set last_used_at = ${values.now}, idle_expires_at = ${values.expiresAt}
      from replaced where sessions.id = replaced.session_id
    ),
    issued as (
      insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at,
        request_digest, client_digest)
      select ${values.successorId}::uuid, user_id, session_id, ${values.successorDigest}::text,
        ${values.keyId}::text, ${values.issuedAt}::timestamptz, ${values.expiresAt}::timestamptz,
        ${values.requestDigest}::text, ${values.clientDigest}::text
      from replaced
    )
    select ${tokenColumns(values.now)}, exists (select from replaced) as is_replaced
    from ${TOKEN_WITH_SESSION}
    where token.id = ${values.id} and token.token = ${values.digest}`.compile(db),
)
