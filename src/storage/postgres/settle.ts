// Settles attempts that open no session in PostgreSQL, each in one statement: one round trip, and row locks that
// are held only while it runs.
import { sql } from 'kysely'
import type { NotedLogin, ThrottleScope } from '../../domain/attempt.ts'
import { WINDOW_MINUTES } from '../../domain/throttle.ts'
import { prepare, type RunStatement } from '../sql/prepared.ts'
import { formatTime } from '../sql/schema.ts'
import {
  dummyIdOf,
  keysOf,
  type Moments,
  momentsAt,
  ONE_FAILURE_MORE,
} from '../sql/throttle-rows.ts'
import { noteLogin } from '../sql/user-rows.ts'

/** Each failure for the day is forgiven this long after the one before. */
export const WINDOW_INTERVAL = sql.raw(`interval '${WINDOW_MINUTES} minutes'`)

export async function release(run: RunStatement, scopes: ThrottleScope[]): Promise<void> {
  await run(releasePending, { keys: keysOf(scopes) })
}

export async function pass(
  run: RunStatement,
  scopes: ThrottleScope[],
  login?: NotedLogin,
): Promise<void> {
  const keys = keysOf(scopes)
  if (login) await run(noteSuccess, { ...login, keys, now: formatTime(login.at) })
  else await run(countSuccess, { keys })
}

export async function fail(
  run: RunStatement,
  scopes: ThrottleScope[],
  userId: string | null,
  now: Date,
): Promise<number> {
  const parameters = { ...momentsAt(now), keys: keysOf(scopes) }
  if (userId === null) {
    await run(failDummyUser, { ...parameters, userId: dummyIdOf(scopes) })
    return 0
  }
  const [user] = await run(failUser, { ...parameters, userId })
  return user?.failed_login_attempts ?? 0
}

/**
 * Locks the rows in the order of their keys, like every other statement, and reads their newest versions. A
 * statement that joins `all_locked` locks all rows before it changes one: otherwise a parallel insertion of
 * a changed row could wait for it while holding the next row, a deadlock.
 */
export const lockedRows = (keys: string[]) => sql`locked as materialized (
    select * from login_throttle where key = any (${keys}) order by key for update
  ),
  all_locked as materialized (select count(*) from locked)`
export const ONE_PENDING_LESS = sql`greatest(l.pending - 1, 0)`

const releasePending = prepare<{ keys: string[] }>(
  ({ keys }) => sql`with ${lockedRows(keys)}
    update login_throttle t set pending = ${ONE_PENDING_LESS}
    from locked l, all_locked where t.key = l.key`,
)

/** A success clears the failures of its pair or device only. */
export const SUCCEEDED = sql`pending = ${ONE_PENDING_LESS},
  failures = case when l.scope in ('pair', 'device') then 0 else l.failures end`

const countSuccess = prepare<{ keys: string[] }>(
  ({ keys }) => sql`with ${lockedRows(keys)}
    update login_throttle t set ${SUCCEEDED}
    from locked l, all_locked where t.key = l.key`,
)

type NoteParameters = { keys: string[]; userId: string; now: string; ip: string; userAgent: string }

const noteSuccess = prepare<NoteParameters>(
  parameters => sql`with ${lockedRows(parameters.keys)},
    counted as (
      update login_throttle t set ${SUCCEEDED} from locked l, all_locked where t.key = l.key
    )
    update users set ${noteLogin(parameters)} from all_locked where id = ${parameters.userId}`,
)

type FailureParameters = Moments & { keys: string[]; userId: string }

/**
 * The commit of a failure does not wait for a synchronous standby, and so releases the locks of its rows
 * sooner. If a failover loses it, the reservation, which the standby has, counts as a failure when its lease
 * ends. Commits that do not even wait for the disk stay as they are.
 */
const COMMITTED_LOCALLY = sql`committed_locally as materialized (
    select set_config('synchronous_commit',
      case current_setting('synchronous_commit') when 'off' then 'off' else 'local' end, true)
  )`

const failUser = prepareFailure('users')
const failDummyUser = prepareFailure('unknown_user')

function prepareFailure(table: 'users' | 'unknown_user') {
  return prepare<FailureParameters, { failed_login_attempts: number }>(
    parameters => sql`with ${COMMITTED_LOCALLY}, ${lockedRows(parameters.keys)},
    counted as (
      update login_throttle t set pending = ${ONE_PENDING_LESS},
        failures = case when l.window_ends_at <= ${parameters.now} then 1 else l.failures + 1 end,
        window_ends_at = case when l.failures = 0 or l.window_ends_at <= ${parameters.now}
          then ${parameters.windowEnd} else l.window_ends_at end,
        clears_at = case l.scope when 'email'
          then greatest(l.clears_at + ${WINDOW_INTERVAL}, ${parameters.windowEnd}) end,
        expires_at = greatest(l.clears_at + ${WINDOW_INTERVAL}, ${parameters.expiry})
      from locked l, all_locked where t.key = l.key returning t.key
    )
    update ${sql.table(table)} u set ${ONE_FAILURE_MORE}
    from (select count(*) from counted) after, committed_locally
    where u.id = ${parameters.userId} returning u.failed_login_attempts`,
  )
}
