// Rows of users: how a login finds one, and how it becomes a `User`.
import { type Selectable, sql } from 'kysely'
import type { User } from '../../domain/user.ts'
import { prepare } from './prepared.ts'
import { parseTime, parseTimeOrNull, type Schema } from './schema.ts'

/** The last login is left out, because no dummy row has one: reading it would take longer for users. */
const USER_COLUMNS = {
  id: 'id',
  email: 'email',
  passwordHash: 'password_hash',
  name: 'name',
  role: 'role',
  isActive: 'is_active',
  failedLoginAttempts: 'failed_login_attempts',
  lockedUntil: 'locked_until',
  lockedBy: 'locked_by',
  temporaryUntil: 'temporary_until',
  factorsVersion: 'factors_version',
  failedSecondSteps: 'failed_second_steps',
  codeOffsetSeconds: 'code_offset_seconds',
  createdAt: 'created_at',
  updatedAt: 'updated_at',
} as const satisfies Record<keyof User, keyof Schema['users']>
/** The columns of these fields of a user. */
export type ColumnOf<Field extends keyof typeof USER_COLUMNS> = (typeof USER_COLUMNS)[Field]
type UserRow = Pick<Selectable<Schema['users']>, ColumnOf<keyof typeof USER_COLUMNS>>
export type FoundUser = UserRow & { position: number }

/** Falls back to a dummy row so that both lookups cost the same; `lock` ends both queries. */
export function selectUserOrDummy(email: string, dummyId: string, lock = sql``) {
  const columns = sql.join(Object.values(USER_COLUMNS).map(column => sql.ref(column)))
  return sql<FoundUser>`with
    known as (select 0 as position, ${columns} from users where email = ${email} ${lock}),
    dummy as (select 1 as position, ${columns} from unknown_user where id = ${dummyId} ${lock})
    select * from known union all select * from dummy order by position limit 1`
}

/** Null for a dummy row; it is converted too, so that both cost the same. */
export function toFoundUser(row: FoundUser | null | undefined): User | null {
  if (!row) throw new Error('unknown_user has lost a row')
  const user = toUser(row)
  return row.position === 0 ? user : null
}

export function toUser(row: UserRow): Required<User> {
  return {
    id: row.id,
    email: row.email,
    passwordHash: row.password_hash,
    name: row.name,
    role: row.role,
    isActive: Boolean(row.is_active),
    failedLoginAttempts: row.failed_login_attempts,
    lockedUntil: parseTimeOrNull(row.locked_until),
    lockedBy: row.locked_by,
    temporaryUntil: parseTimeOrNull(row.temporary_until),
    factorsVersion: row.factors_version,
    failedSecondSteps: row.failed_second_steps,
    codeOffsetSeconds: row.code_offset_seconds,
    createdAt: parseTime(row.created_at),
    updatedAt: parseTime(row.updated_at),
  }
}

/** What a session keeps of its user: the login before its own, the failures in between, and the wrong codes. */
export const LAST_LOGIN_COLUMNS = sql`last_login_at, last_login_ip, last_login_user_agent, failures_since_login,
  failed_second_steps`

type NotedRow = { userId: string; now: string; ip: string; userAgent: string }

/**
 * A lock by the throttle that has not ended stays: a success does not clear the scope `email`. Guesses stay unless there
 * are fewer than `forgivesBelow`.
 */
export const noteLoginOf = prepare<NotedRow & { forgivesBelow: number }>(
  ({ userId, now, ip, userAgent, forgivesBelow }) => sql`update users set failed_login_attempts = 0,
      locked_until = case when locked_until <= ${now} then null else locked_until end,
      locked_by = case when locked_until <= ${now} then null else locked_by end,
      last_login_at = ${now}, last_login_ip = ${ip}, last_login_user_agent = ${userAgent},
      failures_since_login = 0, code_offset_seconds = null,
      failed_second_steps = case
        when failed_second_steps < cast(${forgivesBelow} as integer) then 0
        else failed_second_steps end
    where id = ${userId}`,
)

/** What a login has verified of its user. */
export type VerifiedUser = {
  userId: string
  now: string
  passwordHash: string
  hashDigest: string
  factorsVersion: number
}

/** True for the row of the user, if it may still log in and has the same password and second factors. */
export function isStillVerified(at: VerifiedUser) {
  return sql<boolean>`(id = ${at.userId} and is_active and ${isNotLockedByAdministrator(at.now)}
      and factors_version = ${at.factorsVersion}
      -- A parallel login may have upgraded the hash; the password is still the same.
      and (password_hash = ${at.passwordHash} or upgraded_from = ${at.hashDigest}))`
}

/**
 * Ignores locks set by the throttle; a lock without `locked_by` counts as an administrator's. The same rule
 * as `isLockedByAdministrator` of `src/domain/user.ts`, in SQL.
 */
export function isNotLockedByAdministrator(now: string) {
  return sql<boolean>`(locked_until is null or locked_until <= ${now} or locked_by = 'throttle')`
}
