// The reservation of an attempt in SQLite, within a transaction that is the only one to write.
import { type Selectable, sql, type Transaction } from 'kysely'
import { prepare } from './prepared.ts'
import type { Schema } from './schema.ts'
import { isOneOf, toJson } from './sqlite-settle.ts'
import type { Reservation, ThrottleScope } from './store.ts'
import { isNotLockedByAdministrator, momentsAt, refusal } from './throttle-rows.ts'
import { toText, toTime } from './values.ts'

export async function reserveInTransaction(
  trx: Transaction<Schema>,
  scopes: ThrottleScope[],
  email: string,
  now: Date,
): Promise<Reservation> {
  const rows = await findRows(trx, { keys: toJson(scopes) })
  const states = scopes.map(scope => ({
    scope,
    ...stateOf(
      rows.find(row => row.key === scope.key),
      now,
    ),
  }))
  const at = momentsAt(now)

  const refusing = states.filter(s => s.blockedUntil || s.failures >= s.scope.maxFailures)
  if (refusing.length > 0) {
    const spent = refusing.filter(s => !s.blockedUntil)
    for (const { scope, failures, pending } of spent) {
      await trx
        .updateTable('login_throttle')
        .set({ failures, pending, blocked_until: at.windowEnd, expires_at: at.expiry })
        .where('key', '=', scope.key)
        .execute()
    }
    const locked = spent.some(s => s.scope.name === 'email')
      ? await lockByThrottle(trx, email, now)
      : null
    return refusal(
      refusing.map(s => ({
        scope: s.scope.name,
        blockedUntil: s.blockedUntil ?? toTime(at.windowEnd),
      })),
      locked,
    )
  }

  const full = states.find(s => s.failures + s.pending >= s.scope.maxFailures)
  if (full) return { kind: 'busy', key: full.scope.key }

  const reserved = states.map(({ scope, failures, pending, windowEndsAt }) => ({
    ...scope,
    failures,
    pending: pending + 1,
    windowEnd: windowEndsAt ? toText(windowEndsAt) : at.windowEnd,
  }))
  await writeRows(trx, { rows: JSON.stringify(reserved), ...at })
  return { kind: 'admitted' }
}

const findRows = prepare<{ keys: string }, Selectable<Schema['login_throttle']>>((db, { keys }) =>
  db.selectFrom('login_throttle').selectAll().where(isOneOf(keys)).compile(),
)

/** One statement for all scopes, new or known. */
const writeRows = prepare<{ rows: string; leaseEnd: string; expiry: string }>((db, holes) =>
  sql`insert into login_throttle (key, scope, email_digest, failures, pending, lease_ends_at,
      window_ends_at, expires_at)
    select value ->> 'key', value ->> 'name', value ->> 'emailDigest', value ->> 'failures',
      value ->> 'pending', ${holes.leaseEnd}, value ->> 'windowEnd', ${holes.expiry}
    from json_each(${holes.rows}) where true
    on conflict (key) do update set failures = excluded.failures, pending = excluded.pending,
      lease_ends_at = excluded.lease_ends_at, window_ends_at = excluded.window_ends_at,
      blocked_until = null, expires_at = excluded.expires_at`.compile(db),
)

/** What a row means now: windows and blocks that ended are over, leases that ran out are failures. */
function stateOf(row: Selectable<Schema['login_throttle']> | undefined, now: Date) {
  if (!row) return { failures: 0, pending: 0, blockedUntil: null, windowEndsAt: null }
  const blockedUntil = row.blocked_until === null ? null : toTime(row.blocked_until)
  const isBlocked = blockedUntil !== null && blockedUntil > now
  const isOver = !isBlocked && (blockedUntil !== null || toTime(row.window_ends_at) <= now)
  const abandoned = toTime(row.lease_ends_at) <= now ? row.pending : 0
  return {
    failures: (isOver ? 0 : row.failures) + abandoned,
    pending: row.pending - abandoned,
    blockedUntil: isBlocked ? blockedUntil : null,
    windowEndsAt: isOver ? null : toTime(row.window_ends_at),
  }
}

async function lockByThrottle(
  trx: Transaction<Schema>,
  email: string,
  now: Date,
): Promise<string | null> {
  const { now: moment, windowEnd } = momentsAt(now)
  const locked = await trx
    .updateTable('users')
    .set({ locked_until: windowEnd, locked_by: 'throttle', updated_at: moment })
    .where('email', '=', email)
    .where(isNotLockedByAdministrator(moment))
    .returning('id')
    .executeTakeFirst()
  // The same write for nobody, here too.
  if (!locked) await trx.updateTable('unknown_user').set({ updated_at: moment }).execute()
  return locked?.id ?? null
}
