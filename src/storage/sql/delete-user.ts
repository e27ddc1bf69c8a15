// Deletes a user with its sessions, refresh tokens and devices, and replaces it by a pseudonym in the audit.
import { setImmediate } from 'node:timers/promises'
import { sql, type Transaction } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import type { UserDetails } from '../../domain/user.ts'
import { digestOf } from '../../system/identifiers.ts'
import { detailsOf, writeAudit } from './audit.ts'
import { isAmong } from './dialect.ts'
import { endAllSessions, isOfUser } from './end-all-sessions.ts'
import { keepEnded, type RemovedSession } from './ended-sessions.ts'
import { type Engine, ROWS_AT_A_TIME, transact } from './engine.ts'
import { lockForChange } from './lock-for-change.ts'
import { formatTime, type Schema } from './schema.ts'

export async function deleteUser(
  engine: Engine,
  id: string,
  change: Change,
): Promise<number | null> {
  // From here on the user has no live session, and no login opens another.
  const ended = await transact(engine, async trx => {
    const user = await lockForChange(engine, trx, 'id', id, change.seen)
    if (!user) return null
    await deactivate(trx, id)
    const event = { action: 'user.deleted' as const, target: user.email, targetId: id }
    await writeAudit(trx, change, { ...event, before: detailsOf(user) })
    return endAllSessions(engine, trx, isOfUser(id), change.at)
  })
  if (!ended) return null
  // In batches, so that logins wait for none of them. If this is interrupted, the deletion can be repeated. Tokens come
  // before sessions, as they lock each other's rows elsewhere.
  const inBatches = async (batch: (trx: Transaction<Schema>) => Promise<boolean>) => {
    while (!(await transact(engine, batch))) await setImmediate()
  }
  for (const table of ['refresh_tokens', 'sessions'] as const) {
    await inBatches(trx => removeBatch(engine, trx, table, id, change.at))
  }
  await inBatches(trx => forgetActor(engine, trx, id))
  await transact(engine, async trx => {
    // Other changes may have come meanwhile, also an activation and logins. Each locks the user before it adds an event.
    await deactivate(trx, id)
    await removeBatch(engine, trx, 'sessions', id, change.at)
    await forget(engine, trx, id)
    await forgetActor(engine, trx, id)
    await trx.deleteFrom('users').where('id', '=', id).execute()
  })
  await engine.emptyWriteAheadLog()
  return ended.length
}

function deactivate(trx: Transaction<Schema>, id: string) {
  return trx.updateTable('users').set({ is_active: 0 }).where('id', '=', id).execute()
}

/** True if no more rows are left. */
async function removeBatch(
  engine: Engine,
  trx: Transaction<Schema>,
  table: 'refresh_tokens' | 'sessions',
  userId: string,
  now: Date,
): Promise<boolean> {
  const limit = ROWS_AT_A_TIME[engine.name]
  const chosen = sql`select id from ${sql.table(table)} where user_id = ${userId}
    limit ${sql.lit(limit)}`
  // A session of a login meanwhile ends here.
  const endedAt = table === 'sessions' ? sql`coalesce(ended_at, ${formatTime(now)})` : sql`null`
  const { rows } = await sql<RemovedSession>`delete from ${sql.table(table)}
    where ${isAmong(engine.name, 'id', chosen)} returning id, ${endedAt} as ended_at`.execute(trx)
  if (table === 'sessions') await keepEnded(engine, trx, rows, now)
  return rows.length < limit
}

/** Which fields of an event name a person. */
const IS_PERSONAL: Record<keyof UserDetails | 'userAgent', boolean> = {
  ...{ email: true, name: true, role: false, userAgent: true },
}
const PERSONAL = Object.entries(IS_PERSONAL).flatMap(([field, isOne]) => (isOne ? [field] : []))

/**
 * All events of one user get the same pseudonym, so that they can still be read as one story. Events that name the
 * user by an email only were written when failures were cleared that no user had yet. Another user may have this email
 * now; and an address names no user, so events of addresses stay as they are.
 */
async function forget(engine: Engine, trx: Transaction<Schema>, userId: string): Promise<void> {
  const ownEvents = sql`from audit_events where target_id = ${userId}`
  const names = sql`select email from users where id = ${userId}
    union select target ${ownEvents}
    union select before ->> 'email' ${ownEvents}
    union select after ->> 'email' ${ownEvents}`
  const ids = sql`select id ${ownEvents}
    union select id from audit_events
      where target_id is null and ${isAmong(engine.name, 'target', names)}
        and not exists (select 1 from users where email = target and users.id <> ${userId})`
  const withoutNames = (facts: string) =>
    engine.name === 'postgres'
      ? // Unlike jsonb, this keeps the order of the fields.
        sql`case when ${sql.ref(facts)} is not null then coalesce((select json_object_agg(key, value)
          from json_each(${sql.ref(facts)}) where key <> all (${PERSONAL}::text[])), '{}'::json) end`
      : sql`json_remove(${sql.ref(facts)}, ${sql.join(PERSONAL.map(field => `$.${field}`))})`
  await sql`update audit_events set target = ${pseudonymOf(userId)}, target_id = null,
      before = ${withoutNames('before')}, after = ${withoutNames('after')}
    where ${isAmong(engine.name, 'id', ids)}`.execute(trx)
}

/** What a person at the console has done stays, under the pseudonym. True if no more events are left. */
async function forgetActor(
  { name }: Engine,
  trx: Transaction<Schema>,
  userId: string,
): Promise<boolean> {
  const limit = ROWS_AT_A_TIME[name]
  const chosen = sql`select event_id from audit_actors where user_id = ${userId}
    order by event_id limit ${sql.lit(limit)}`
  await sql`update audit_events set actor = ${pseudonymOf(userId)}
    where ${isAmong(name, 'id', chosen)}`.execute(trx)
  const { rows } = await sql`update audit_actors set user_id = null, once = null
    where ${isAmong(name, 'event_id', chosen)} returning event_id`.execute(trx)
  return rows.length < limit
}

const pseudonymOf = (userId: string) => `deleted-user-${digestOf(userId).slice(0, 16)}`
