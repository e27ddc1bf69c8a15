// The record of what administrators change. Rows are added; `delete-user.ts` and the purge alone change or remove them.
import { type Kysely, type Selectable, sql } from 'kysely'
import type {
  Actor,
  AuditEvent,
  AuditFacts,
  AuditStore,
  Change,
  NewAuditEvent,
} from '../../domain/audit.ts'
import type { User, UserDetails } from '../../domain/user.ts'
import { isAmong } from './dialect.ts'
import { type Engine, transact } from './engine.ts'
import { formatTime, parseTime, type Schema } from './schema.ts'

/** Called in the transaction that makes the change, so that neither exists without the other. */
export async function writeAudit(
  trx: Kysely<Schema>,
  change: Change,
  ...events: NewAuditEvent[]
): Promise<void> {
  if (events.length > 0) await insertEvents(trx, change, events)
}

/** With `once` it inserts one event, unless there is one with the same `once`. */
async function insertEvents(
  trx: Kysely<Schema>,
  change: Change,
  events: NewAuditEvent[],
  once: string | null = null,
): Promise<void> {
  const toJson = (facts: AuditFacts | null) => facts && JSON.stringify(facts)
  const rows = toAuditRows(change, events).map(row => ({
    ...row,
    before: toJson(row.before),
    after: toJson(row.after),
  }))
  const insertion = trx.insertInto('audit_events').values(rows)
  const { kind, id = null } = change.by
  if (kind !== 'person' && once === null) {
    await insertion.execute()
    return
  }
  const inserted = await insertion.returning('id').execute()
  const actors = await trx
    .insertInto('audit_actors')
    .values(inserted.map(event => ({ event_id: event.id, user_id: id, once })))
    // Of parallel calls, also of several instances, one has come first.
    .onConflict(conflict => conflict.column('once').doNothing())
    .returning('event_id')
    .execute()
  const [event] = inserted
  if (event && actors.length === 0) {
    await trx.deleteFrom('audit_events').where('id', '=', event.id).execute()
  }
}

export function toAuditRows({ at, by, allowWeak }: Change, events: NewAuditEvent[]) {
  const time = formatTime(at)
  return events.map(({ action, target, targetId, before = null, after = null }) => ({
    at: time,
    actor_kind: by.kind === 'person' ? ('user' as const) : by.kind,
    actor: by.name,
    host: by.host,
    action,
    target,
    target_id: targetId,
    before,
    after: allowWeak ? { ...after, allowWeak } : after,
  }))
}

/** What the event of a new or deleted user says; its target is the email. */
export function detailsOf({ name, role }: Omit<UserDetails, 'email'>): AuditFacts {
  return { name, role } satisfies Record<Exclude<keyof UserDetails, 'email'>, unknown>
}

type UnrecordedField =
  | ('id' | 'passwordHash' | 'createdAt' | 'updatedAt')
  | ('factorsVersion' | 'codeOffsetSeconds')

/** What the record says of a user. */
function factsOf(user: User): AuditFacts {
  return {
    email: user.email,
    name: user.name,
    role: user.role,
    isActive: user.isActive,
    failedLoginAttempts: user.failedLoginAttempts,
    lockedUntil: user.lockedUntil && formatTime(user.lockedUntil),
    lockedBy: user.lockedBy,
    temporaryUntil: user.temporaryUntil && formatTime(user.temporaryUntil),
    failedSecondSteps: user.failedSecondSteps,
  } satisfies Record<Exclude<keyof User, UnrecordedField>, unknown>
}

/** The facts that a change has changed; null if it has changed none. */
export function changedFacts(before: User, after: User) {
  const [old, current] = [factsOf(before), factsOf(after)]
  const names = Object.keys(old).filter(name => old[name] !== current[name])
  const pick = (facts: AuditFacts) =>
    Object.fromEntries(names.map(name => [name, facts[name] ?? null]))
  return names.length > 0 ? { before: pick(old), after: pick(current) } : null
}

export function createAudit(engine: Engine): AuditStore {
  const { db, name } = engine

  return {
    record: (change, events) => transact(engine, trx => writeAudit(trx, change, ...events)),

    async recordDaily(change, event) {
      const { kind, id, name: actor } = change.by
      const once = [formatTime(change.at).slice(0, 10), event.action, kind, id ?? actor].join(' ')
      // Most calls find it, and write nothing.
      const found = await engine.retrying(() =>
        db.selectFrom('audit_actors').select('once').where('once', '=', once).executeTakeFirst(),
      )
      if (!found) await transact(engine, trx => insertEvents(trx, change, [event], once))
    },

    async list(target, { since, beforeId, limit }) {
      const users = sql`select id from users where email = ${target}
        union select target_id from audit_events where target = ${target}`
      // Each part is found by an index of its own: "or" would read the whole table.
      const ids = sql`select id from audit_events where target = ${target}
        union select id from audit_events where ${isAmong(name, 'target_id', users)}`
      const { rows } = await engine.retrying(() =>
        sql<Row>`select audit_events.*, ${ACTOR_ID} from audit_events
          where ${target === null ? sql`true` : isAmong(name, 'id', ids)}
            and at >= ${since ? formatTime(since) : FIRST_TIME}
            and ${beforeId === null ? sql`true` : sql`(at, id) < (select at, id from audit_events where id = ${beforeId})`}
          order by at desc, id desc limit ${sql.lit(limit)}`.execute(db),
      )
      const events = rows.map(toEvent)
      return { events, next: events.length < limit ? null : (events.at(-1)?.id ?? null) }
    },

    async listOfUser({ id, email }, { beforeId, limit }) {
      const page = sql`and id < ${beforeId ?? Number.MAX_SAFE_INTEGER}
        order by id desc limit ${sql.lit(limit)}`
      // Failures of the email may have been cleared before it had a user.
      const ids = sql`select id from (select id from audit_events where target_id = ${id} ${page}) own
        union select id from (select id from audit_events
          where target = ${email} and target_id is null ${page}) of_email`
      const { rows } = await engine.retrying(() =>
        sql<Row>`select audit_events.*, ${ACTOR_ID} from audit_events
          where ${isAmong(name, 'id', ids)} ${page}`.execute(db),
      )
      return rows.map(toEvent)
    },
  }
}

type Row = Selectable<Schema['audit_events']> & { actor_id: string | null }

/** Null if the actor is no person at the console; empty of one that has been deleted. */
const ACTOR_ID = sql`(select coalesce(cast(user_id as text), '') from audit_actors
  where event_id = audit_events.id) as actor_id`
const FIRST_TIME = '1970-01-01T00:00:00.000Z'

function toEvent(row: Row): AuditEvent {
  return {
    id: Number(row.id),
    at: parseTime(row.at),
    by: toActor(row),
    action: row.action,
    target: row.target,
    targetId: row.target_id,
    before: toFacts(row.before),
    after: toFacts(row.after),
  }
}

function toActor({ actor_kind: kind, actor: name, host, actor_id: id }: Row): Actor {
  if (kind === 'token' || id === null) return { kind, name, host }
  return { kind: 'person', name, host, ...(id !== '' && { id }) }
}

/** SQLite returns JSON as text, PostgreSQL as an object. */
function toFacts(stored: AuditFacts | string | null): AuditFacts | null {
  return typeof stored === 'string' ? JSON.parse(stored) : stored
}
