// The tables as Kysely sees them. Times are written as ISO 8601 text and flags as 0 and 1, which
// both engines take; PostgreSQL gives them back as Date and boolean, SQLite as they were written.
import type { ColumnType, Generated } from 'kysely'
import type { ScopeName } from '../../domain/attempt.ts'
import type { LockedBy } from '../../domain/user.ts'

export type Time = ColumnType<Date | string, string, string>
type NullableTime = ColumnType<Date | string | null, string | null, string | null>
type Flag = ColumnType<boolean | number, number | undefined, number>

/** The first row of `unknown_user`; the others differ in the last byte. */
export const UNKNOWN_USER_ID = '00000000-0000-4000-8000-000000000000'

type Users = {
  id: string
  email: string
  password_hash: string
  /** SHA-256 of the hash that this one replaced for the same password, hex. */
  upgraded_from: string | null
  name: string
  role: string
  is_active: Flag
  failed_login_attempts: Generated<number>
  locked_until: NullableTime
  locked_by: LockedBy | null
  created_at: Time
  updated_at: Time
  /** Sessions of another generation are dead: to raise it ends them all at once. */
  session_generation: Generated<number>
}

export type Schema = {
  users: Users
  /** 256 dummy rows, which are read and written for emails without a user. */
  unknown_user: Users
  sessions: {
    id: string
    user_id: string
    created_at: Time
    last_used_at: Time
    /** When it ends if neither its newest refresh token nor its cookie is used. */
    idle_expires_at: Time
    /** When it ends however much it is used. */
    expires_at: Time
    ended_at: NullableTime
    cookie_digest: string | null
    cookie_used_at: NullableTime
    user_agent: string
    ip: string
    /** The user's `session_generation` at the login. */
    generation: Generated<number>
    /** The browser's device at the login; it may have been revoked since. */
    device_id: string | null
    /** False once an ended session's refresh tokens have been removed. */
    has_tokens: Flag
  }
  refresh_tokens: {
    id: string
    user_id: string
    session_id: string
    token: string
    key_id: string
    expires_at: Time
    created_at: Time
    revoked_at: NullableTime
    /** The token that took its place; null while it is in use or if it was revoked otherwise. */
    successor_id: string | null
  }
  devices: {
    id: string
    user_id: string
    token: string
    created_at: Time
    last_used_at: Time
    expires_at: Time
    user_agent: string
  }
  /** One row: what the tags of device cookies are keyed with, hex. */
  device_key: { id: number; key: string }
  login_throttle: {
    key: string
    scope: ScopeName
    email_digest: string | null
    /** Since the window began. */
    failures: number
    /** Since the day began; counted for emails only. */
    daily_failures: Generated<number>
    pending: number
    lease_ends_at: Time
    window_ends_at: Time
    day_ends_at: NullableTime
    blocked_until: NullableTime
    expires_at: Time
  }
  /** One row that a readiness check writes to. */
  readiness: { id: number; checked_at: Time }
}
