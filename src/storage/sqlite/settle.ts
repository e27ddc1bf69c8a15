// Releases and settles attempts that open no session in SQLite, each in one transaction, which holds the only write lock.
import { sql } from 'kysely'
import type { NotedLogin, ThrottleScope } from '../../domain/attempt.ts'
import { WINDOW_MINUTES } from '../../domain/throttle.ts'
import { prepare, type RunNow } from '../sql/prepared.ts'
import { formatTime } from '../sql/schema.ts'
import {
  dummyIdOf,
  keysOf,
  type Moments,
  momentsAt,
  ONE_FAILURE_MORE,
} from '../sql/throttle-rows.ts'
import { noteLogin } from '../sql/user-rows.ts'

export function release(run: RunNow, scopes: ThrottleScope[]): void {
  run(releasePending, { keys: toJson(scopes) })
}

export function pass(run: RunNow, scopes: ThrottleScope[], login?: NotedLogin): void {
  run(countSuccess, { keys: toJson(scopes) })
  if (login) run(noteLoginOf, { ...login, now: formatTime(login.at) })
}

export function fail(
  run: RunNow,
  scopes: ThrottleScope[],
  userId: string | null,
  now: Date,
): number {
  run(countFailure, { keys: toJson(scopes), ...momentsAt(now) })
  // Writes a dummy row for an unknown email, so that both failures cost the same.
  if (userId === null) {
    run(countDummyFailure, { id: dummyIdOf(scopes) })
    return 0
  }
  const [user] = run(countUserFailure, { id: userId })
  return user?.failed_login_attempts ?? 0
}

/** Passes the keys as one parameter, so that the statement is the same for any number of scopes. */
export function toJson(scopes: ThrottleScope[]): string {
  return JSON.stringify(keysOf(scopes))
}

export function isOneOf(keys: string) {
  return sql`key in (select value from json_each(${keys}))`
}

const ONE_PENDING_LESS = sql`pending = max(pending - 1, 0)`

const releasePending = prepare<{ keys: string }>(
  ({ keys }) => sql`update login_throttle set ${ONE_PENDING_LESS} where ${isOneOf(keys)}`,
)

/** One window after `clears_at`; without it, a text that is before any time. */
const CLEARS_LATER = sql`coalesce(
  strftime('%Y-%m-%dT%H:%M:%fZ', clears_at, ${sql.lit(`${WINDOW_MINUTES} minutes`)}), '')`

/** Turns a pending attempt into a failure; the first failure starts the window. */
const countFailure = prepare<Moments & { keys: string }>(
  at => sql`update login_throttle set ${ONE_PENDING_LESS},
      failures = case when window_ends_at <= ${at.now} then 1 else failures + 1 end,
      window_ends_at = case when failures = 0 or window_ends_at <= ${at.now}
        then ${at.windowEnd} else window_ends_at end,
      clears_at = case scope when 'email' then max(${CLEARS_LATER}, ${at.windowEnd}) end,
      expires_at = max(${CLEARS_LATER}, ${at.expiry})
    where ${isOneOf(at.keys)}`,
)

/** Ends a pending attempt as a success, and clears the failures of its pair or device only. */
export const countSuccess = prepare<{ keys: string }>(
  ({ keys }) => sql`update login_throttle set ${ONE_PENDING_LESS},
      failures = case when scope in ('pair', 'device') then 0 else failures end
    where ${isOneOf(keys)}`,
)

type NoteParameters = { userId: string; now: string; userAgent: string; ip: string }

export const noteLoginOf = prepare<NoteParameters>(
  at => sql`update users set ${noteLogin(at)} where id = ${at.userId}`,
)

const countUserFailure = countingIn('users')
const countDummyFailure = countingIn('unknown_user')

function countingIn(table: 'users' | 'unknown_user') {
  return prepare<{ id: string }, { failed_login_attempts: number }>(
    ({ id }) => sql`update ${sql.table(table)} set ${ONE_FAILURE_MORE}
      where id = ${id} returning failed_login_attempts`,
  )
}
