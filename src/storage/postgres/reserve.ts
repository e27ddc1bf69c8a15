// Reserves an attempt in PostgreSQL, in one statement.
import { sql } from 'kysely'
import type { Reservation, ScopeName, ThrottleScope } from '../../domain/attempt.ts'
import { prepare, type RunStatement } from '../sql/prepared.ts'
import { parseTime } from '../sql/schema.ts'
import { dummyIdOf, keysOf, momentsAt, toBlock } from '../sql/throttle-rows.ts'
import {
  type FoundUser,
  isNotLockedByAdministrator,
  selectUserOrDummy,
  toFoundUser,
} from '../sql/user-rows.ts'
import { WINDOW_INTERVAL } from './settle.ts'

type ReservedScope = {
  verdict: Reservation['kind']
  scope: ScopeName
  key: string
  is_full: boolean
  capacity: number
  /** Null if this scope does not block the attempt. */
  block_ends_at: Date | null
  locked_user_id: string | null
  /** Only in the first row of an attempt that is not blocked. */
  found: FoundUser | null
}

/**
 * The statement locks the existing rows in the order of their keys and reads their newest versions, decides
 * over all scopes, then changes or adds rows. It does not use "on conflict": an upsert would change a row
 * before the decision on all scopes is known.
 */
export async function reserve(
  run: RunStatement,
  scopes: ThrottleScope[],
  email: string,
  now: Date,
): Promise<Reservation> {
  const rows = await run(reserveAll, reservationValues(scopes, email, now))
  const [first] = rows
  if (!first) throw new Error('a reservation names at least one scope')
  switch (first.verdict) {
    case 'admitted':
      return { kind: 'admitted', user: toFoundUser(first.found) }
    case 'busy': {
      const { key, capacity } = rows.find(row => row.is_full) ?? first
      return { kind: 'busy', user: toFoundUser(first.found), key, capacity }
    }
    case 'blocked':
      return toBlock(
        rows.flatMap(row =>
          row.block_ends_at
            ? [{ scope: row.scope, blockedUntil: parseTime(row.block_ends_at) }]
            : [],
        ),
        first.locked_user_id,
      )
  }
}

function reservationValues(scopes: ThrottleScope[], email: string, now: Date) {
  return {
    ...momentsAt(now),
    email,
    dummyId: dummyIdOf(scopes),
    keys: keysOf(scopes),
    names: scopes.map(scope => scope.name),
    emailDigests: scopes.map(scope => scope.emailDigest),
    budgets: scopes.map(scope => scope.maxFailures),
    dailyBudgets: scopes.map(scope => scope.maxDailyFailures),
  }
}

/**
 * Formats times that an administrator chose in UTC. A lock without an end lasts until the end of 9999, which in the server's time
 * zone may be the year 10000, and `Date` cannot parse that.
 */
const FOUND_AS_JSON = sql`select to_jsonb(found) || jsonb_build_object(
  'locked_until', ${inUtc('locked_until')}, 'temporary_until', ${inUtc('temporary_until')})`

function inUtc(column: string) {
  return sql`to_char(${sql.ref(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
}

const reserveAll = prepare<ReturnType<typeof reservationValues>, ReservedScope>(
  parameters => sql`
    with moment as (
      select ${parameters.now}::timestamptz as now, ${parameters.leaseEnd}::timestamptz as lease_end,
        ${parameters.windowEnd}::timestamptz as window_end, ${parameters.expiry}::timestamptz as expiry
    ),
    -- Timestamps beyond these limits are ignored: the database's clock was ahead, and has been set since.
    far as (
      select window_end + (window_end - now) as window_limit, lease_end + (lease_end - now) as lease_limit
      from moment
    ),
    asked as (
      select * from unnest(
        ${parameters.keys}::text[], ${parameters.names}::text[],
        ${parameters.emailDigests}::text[], ${parameters.budgets}::integer[],
        ${parameters.dailyBudgets}::integer[]
      ) with ordinality as a (key, scope, email_digest, max_failures, max_daily, position)
    ),
    existing as materialized (
      select t.* from login_throttle t
      where t.key = any (${parameters.keys}::text[]) order by t.key for update
    ),
    judged as (
      select e.*, e.blocked_until > now and e.blocked_until <= window_limit as is_blocked,
        coalesce(e.blocked_until, e.window_ends_at) <= now
          or coalesce(e.blocked_until, e.window_ends_at) > window_limit as is_over,
        case when e.lease_ends_at > now and e.lease_ends_at <= lease_limit then 0 else e.pending end
          as lapsed
      from existing e, moment, far
    ),
    counted as (
      select a.*, j.key is not null as is_present, coalesce(j.is_blocked, false) as is_blocked,
        j.blocked_until,
        case when not j.is_over then j.window_ends_at end as window_ends_at,
        coalesce(case when j.is_over then 0 else j.failures end + j.lapsed, 0) as failures,
        coalesce(j.pending - j.lapsed, 0) as pending,
        case when j.clears_at > now and j.clears_at <= now + 2 * a.max_daily * ${WINDOW_INTERVAL}
            then j.clears_at
          when j.lapsed > 0 and a.max_daily > 0 then now
        end + j.lapsed * ${WINDOW_INTERVAL} as clears_at
      from moment, asked a left join judged j using (key)
    ),
    -- When the failures for the day are used up, each window allows one more.
    state as (
      select c.*, greatest(1, least(max_failures, failures + max_daily - coalesce(
        ceil(extract(epoch from clears_at - now) / extract(epoch from ${WINDOW_INTERVAL})), 0)))::integer
        as budget
      from counted c, moment
    ),
    verdict as (
      select case
        when bool_or(is_blocked or failures >= budget) then 'blocked'
        when bool_or(failures + pending >= budget) then 'busy'
        else 'admitted' end as kind
      from state
    ),
    admitted as (
      update login_throttle t set failures = s.failures, pending = s.pending + 1,
        lease_ends_at = m.lease_end, window_ends_at = coalesce(s.window_ends_at, m.window_end),
        blocked_until = null, clears_at = s.clears_at,
        expires_at = greatest(t.expires_at, m.expiry, s.clears_at)
      from state s, verdict v, moment m
      where t.key = s.key and v.kind = 'admitted'
    ),
    added as (
      insert into login_throttle
        (key, scope, email_digest, failures, pending, lease_ends_at, window_ends_at, expires_at)
      select s.key, s.scope, s.email_digest, 0, 1, m.lease_end, m.window_end, m.expiry
      from state s, verdict v, moment m
      where not s.is_present and v.kind = 'admitted' order by s.key
    ),
    blocked as (
      update login_throttle t set failures = s.failures, pending = s.pending,
        blocked_until = m.window_end, clears_at = s.clears_at,
        expires_at = greatest(t.expires_at, m.expiry, s.clears_at)
      from state s, verdict v, moment m
      where t.key = s.key and v.kind = 'blocked' and not s.is_blocked and s.failures >= s.budget
      returning t.scope
    ),
    locked as (
      update users set locked_until = m.window_end, locked_by = 'throttle', updated_at = m.now
      from moment m
      where email = ${parameters.email} and exists (select from blocked where scope = 'email')
        and ${isNotLockedByAdministrator(parameters.now)}
      returning id
    ),
    dummy as (
      update unknown_user set updated_at = m.now
      from moment m
      where id = ${parameters.dummyId}::uuid
        and exists (select from blocked where scope = 'email') and not exists (select from locked)
    ),
    found as (${selectUserOrDummy(parameters.email, parameters.dummyId)})
    select v.kind as verdict, s.scope, s.key,
      s.failures + s.pending >= s.budget as is_full, s.budget - s.failures as capacity,
      case when s.is_blocked then s.blocked_until
        when s.failures >= s.budget then m.window_end end as block_ends_at,
      (select id from locked) as locked_user_id,
      case when v.kind <> 'blocked' and s.position = 1 then (${FOUND_AS_JSON} from found) end as found
    from state s, verdict v, moment m order by s.position`,
)
