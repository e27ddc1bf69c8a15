// The tables as Kysely sees them. Times are written as ISO 8601 text and flags as 0 and 1, which both
// engines accept; PostgreSQL returns them as Date and boolean, SQLite as they were written.
import type { ColumnType, Generated } from 'kysely'
import type { AdminToken } from '../../domain/admin-token.ts'
import type { ScopeName } from '../../domain/attempt.ts'
import type { Actor, AuditAction, AuditFacts } from '../../domain/audit.ts'
import type { Factor } from '../../domain/second-factor.ts'
import type { LockedBy } from '../../domain/user.ts'

type Time = ColumnType<Date | string, string, string>
type NullableTime = ColumnType<Date | string | null, string | null, string | null>
type Json = ColumnType<AuditFacts | string | null, string | null, never>
type Flag = ColumnType<boolean | number, number | undefined, number>

export function formatTime(time: Date, plusMs = 0): string {
  return new Date(time.getTime() + plusMs).toISOString()
}

export function parseTime(stored: Date | string): Date {
  return new Date(stored)
}

export function parseTimeOrNull(stored: Date | string | null): Date | null {
  return stored === null ? null : parseTime(stored)
}

/** The ids of the rows of `unknown_user`. */
export const DUMMY_IDS = Array.from(
  { length: 256 },
  (_, index) => `00000000-0000-4000-8000-${index.toString(16).padStart(12, '0')}`,
)

/** The last login of a user; in `sessions`, the one before the session's own. */
export type LastLoginColumns = {
  /** Null if no earlier login is known. */
  last_login_at: NullableTime
  last_login_ip: string | null
  last_login_user_agent: string | null
  /** Unlike `failed_login_attempts`, an unlock does not change them. */
  failures_since_login: Generated<number>
  /** Wrong codes with the right password: `failedSecondSteps` of a user; in `sessions`, at the session's login. */
  failed_second_steps: Generated<number>
}

type Users = LastLoginColumns & {
  id: string
  email: string
  password_hash: string
  /** SHA-256 in hex of the hash of the same password that this one replaced. */
  upgraded_from: string | null
  name: string
  role: string
  is_active: Flag
  failed_login_attempts: Generated<number>
  locked_until: NullableTime
  locked_by: LockedBy | null
  created_at: Time
  updated_at: Time
  /** The end of a temporary password; null if the password is not temporary. */
  temporary_until: NullableTime
  factors_version: Generated<number>
  code_offset_seconds: number | null
}

export type Schema = {
  users: Users
  /** 256 dummy rows, which are read and written where an email has no user. */
  unknown_user: Users
  sessions: LastLoginColumns & {
    id: string
    user_id: string
    created_at: Time
    last_used_at: Time
    /** Expiry unless the newest refresh token or the cookie is used before. */
    idle_expires_at: Time
    /** Absolute expiry. */
    expires_at: Time
    ended_at: NullableTime
    cookie_digest: string | null
    cookie_used_at: NullableTime
    user_agent: string
    ip: string
    /** The claim `amr` of its access tokens, joined by spaces. */
    amr: Generated<string>
    /** The device that logged in; it may have been revoked since. */
    device_id: string | null
    /**
     * When the purge looks at the session: at its first idle expiry, and again at the current one if it was
     * used since. A refresh does not change it, and so changes no index.
     */
    purge_at: ColumnType<Date | string, string | undefined, string>
  }
  /** The ended sessions of deleted users. */
  ended_sessions: { id: string; ended_at: Time }
  refresh_tokens: {
    id: string
    user_id: string
    session_id: string
    token: string
    key_id: string
    expires_at: Time
    created_at: Time
    revoked_at: NullableTime
    /** The token that replaced it; null while it is valid, or if the end of its session revoked it. */
    successor_id: string | null
    /** These two name the caller of the refresh that issued the token; null for the token of a login. */
    request_digest: string | null
    client_digest: string | null
  }
  login_codes: {
    digest: string
    /** The session of the page that asked for the code. */
    session_id: string
    callback: string
    challenge: string
    expires_at: Time
  }
  second_factors: {
    id: string
    user_id: string
    kind: Factor['kind']
    /** Of an app, encrypted by a key of the key file; of a passkey, its public key. */
    secret: string
    /** Proofs of this time and earlier ones are used up. */
    used_to: NullableTime
    created_at: Time
    last_used_at: NullableTime
    name: string | null
    credential_id: string | null
    rp_id: string | null
  }
  /** SHA-256 of each; `used_at` is null while the code is good. */
  recovery_codes: { digest: string; user_id: string; used_at: NullableTime }
  devices: {
    id: string
    user_id: string
    token: string
    created_at: Time
    last_used_at: Time
    expires_at: Time
    user_agent: string
  }
  login_throttle: {
    key: string
    scope: ScopeName
    email_digest: string | null
    /** In the current window. */
    failures: number
    pending: number
    lease_ends_at: Time
    window_ends_at: Time
    blocked_until: NullableTime
    /** Of the scope `email` only: 15 minutes later for each failure, counted from now if it is over. */
    clears_at: NullableTime
    expires_at: Time
  }
  admin_tokens: {
    name: string
    digest: string
    role: AdminToken['role']
    created_at: Time
    expires_at: Time
    last_used_at: ColumnType<Date | string | null, undefined, string>
  }
  audit_events: {
    id: ColumnType<number | string, never, never>
    at: Time
    /** `user` also of a person at the console, whose events are in `audit_actors`. */
    actor_kind: Exclude<Actor['kind'], 'person'>
    actor: string
    host: string
    action: AuditAction
    target: string
    target_id: string | null
    before: Json
    after: Json
  }
  audit_actors: {
    event_id: number | string
    /** The person at the console; null of a token, or if the person has been deleted. */
    user_id: string | null
    /** Of events that an actor has once a day: the day, the action and the actor. */
    once: string | null
  }
  /** One row: the key that tags device cookies, 256 bits in hex; the readiness check writes the time. */
  service: { id: number; device_key: string; checked_at: NullableTime }
}
