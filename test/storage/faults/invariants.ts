// What must be true of all tables at any moment. One statement for both engines, so that it can run after every case.
import type { TestDatabase } from '../../support/engines.ts'

/** A pending attempt has a lease of one minute. One second more, because two clocks are compared. */
const LEASE_MS = 61_000

const eventOf = (...actions: string[]) =>
  `exists (select 1 from audit_events a where a.target_id = u.id
    and a.action in (${actions.map(action => `'${action}'`).join(', ')}))`
const LIVE_SESSION =
  'exists (select 1 from sessions s where s.user_id = u.id and s.ended_at is null)'

/** Each one selects the ids of the rows that break it. */
export const INVARIANTS = {
  'a session has no user': () =>
    'select id from sessions where user_id not in (select id from users)',
  'a refresh token has no session': () =>
    'select id from refresh_tokens where session_id not in (select id from sessions)',
  'a refresh token and its session have different users': () =>
    'select t.id from refresh_tokens t join sessions s on s.id = t.session_id where t.user_id <> s.user_id',
  'a session has two valid refresh tokens': () =>
    `select session_id as id from refresh_tokens where revoked_at is null
      group by session_id having count(*) > 1`,
  // The purge removes expired tokens before their sessions.
  'a session that has not ended has no valid refresh token': now =>
    `select s.id from sessions s where ended_at is null and idle_expires_at > '${now.toISOString()}'
      and not exists (select 1 from refresh_tokens t where t.session_id = s.id and t.revoked_at is null)`,
  'an ended session has a valid refresh token': () =>
    `select t.id from refresh_tokens t join sessions s on s.id = t.session_id
      where t.revoked_at is null and s.ended_at is not null`,
  'a replaced refresh token has no successor': () =>
    `select t.id from refresh_tokens t join sessions s on s.id = t.session_id
      where t.revoked_at is not null and s.ended_at is null
      and not exists (select 1 from refresh_tokens n where n.id = t.successor_id and n.session_id = s.id)`,
  'a session has a cookie that was never used, or used one that it does not have': () =>
    'select id from sessions where (cookie_digest is null) <> (cookie_used_at is null)',
  'a session was used before its login, or is idle after its end': () =>
    'select id from sessions where last_used_at < created_at or idle_expires_at > expires_at',
  'a session that is listed as one of a deleted user is there': () =>
    'select e.id from ended_sessions e join sessions s on s.id = e.id where s.ended_at is null',
  'a login code has no session': () =>
    'select digest as id from login_codes where session_id not in (select id from sessions)',
  'a device has no user': () =>
    'select id from devices where user_id not in (select id from users)',
  'a user without a second factor has a recovery code': () =>
    'select digest as id from recovery_codes where user_id not in (select user_id from second_factors)',
  'a counter of the throttle is negative': () =>
    'select key as id from login_throttle where failures < 0 or pending < 0',
  'a row of the throttle expires before its failures for the day are forgiven': () =>
    'select key as id from login_throttle where expires_at < clears_at',
  'an attempt is pending for longer than its lease': now =>
    `select key as id from login_throttle where pending > 0
      and lease_ends_at > '${new Date(now.getTime() + LEASE_MS).toISOString()}'`,
  'a row of the throttle has an email that its scope has not, or lacks one': () =>
    `select key as id from login_throttle
      where (scope in ('client', 'network')) <> (email_digest is null)`,
  'a counter of a user is negative': () =>
    'select id from users where failed_login_attempts < 0 or failures_since_login < 0',
  'a lock has no end': () =>
    'select id from users where locked_by is not null and locked_until is null',
  'a dummy row is missing or has changed': () =>
    `select 'unknown_user' as id where (select count(*) from unknown_user
      where is_active and locked_by is null and password_hash = '') <> 256`,
  'a user was not added by an event': () =>
    `select u.id from users u where not ${eventOf('user.added', 'user.imported')}`,
  'a user is inactive without an event': () =>
    `select u.id from users u where not is_active
      and not ${eventOf('user.deactivated', 'user.deleted', 'user.imported')}`,
  'a user is locked by an administrator without an event': () =>
    `select u.id from users u where locked_by = 'administrator'
      and not ${eventOf('user.locked', 'user.imported')}`,
  'a user that cannot log in has a session': () =>
    `select u.id from users u where (not is_active or locked_by = 'administrator') and ${LIVE_SESSION}`,
  'an event names a user that is gone': () =>
    'select id from audit_events where target_id is not null and target_id not in (select id from users)',
  'the key of devices is missing': () =>
    `select 'service' as id where (select count(*) from service) <> 1`,
} satisfies Record<string, (now: Date) => string>

/** What is wrong with the tables, such as `a lock has no end: 7c9e…`. */
export async function findBroken({ rows }: Pick<TestDatabase, 'rows'>, now: Date) {
  const parts = Object.entries(INVARIANTS).map(
    ([title, select]) =>
      `select '${title}' as title, cast(broken.id as text) as id from (${select(now)}) as broken`,
  )
  const found = await rows(parts.join(' union all '))
  return found.map(({ title, id }) => `${title}: ${id}`)
}
