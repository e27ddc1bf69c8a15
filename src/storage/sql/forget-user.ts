// Replaces a deleted user by a pseudonym in the audit. All events of one user get the same, so that they can still be
// read as one story. Migration 0014 has the triggers that allow this change of an event, and no other.
import { type Selectable, sql, type Transaction } from 'kysely'
import type { AuditFacts } from '../../domain/audit.ts'
import { digestOf } from '../../identifiers.ts'
import { toFacts } from './audit.ts'
import { updateRows } from './dialect.ts'
import { type Engine, ROWS_AT_A_TIME } from './engine.ts'
import type { Schema } from './schema.ts'

/** The fields of an event that name a user. */
const PERSONAL = ['email', 'name', 'userAgent']

const COLUMNS = sql`id, target, target_id, before, after`
type EventRow = Pick<
  Selectable<Schema['audit_events']>,
  'id' | 'target' | 'target_id' | 'before' | 'after'
>

/** Derived from the id, so that a deletion that is repeated or runs twice chooses the same one. */
export function pseudonymOf(userId: string): string {
  return `deleted-user-${digestOf(userId).slice(0, 16)}`
}

/** Forgets the user in a batch of its events; true if no more are left. The user must not be active. */
export async function forgetUser(
  engine: Engine,
  trx: Transaction<Schema>,
  userId: string,
): Promise<boolean> {
  const limit = ROWS_AT_A_TIME[engine.name]
  const { rows } = await sql<EventRow>`select ${COLUMNS} from audit_events
    where target_id = ${userId} order by id limit ${sql.lit(limit)}`.execute(trx)
  await forgetIn(engine, trx, rows)
  return rows.length < limit
}

/**
 * Forgets the users of the next events if they no longer exist: earlier versions, which may run beside this one, delete
 * users without it. Returns the id of the last event that it looked at; null if there are no more.
 */
export async function forgetLostUsers(
  engine: Engine,
  trx: Transaction<Schema>,
  afterId: number,
): Promise<number | null> {
  const { rows } = await sql<EventRow & { is_lost: boolean | number }>`
    select ${COLUMNS}, target_id is not null
        and (select users.id from users where users.id = target_id) is null as is_lost
      from (select ${COLUMNS} from audit_events where id > ${afterId}
        order by id limit ${sql.lit(ROWS_AT_A_TIME[engine.name])}) seen order by id`.execute(trx)
  const lost = rows.filter(({ is_lost }) => is_lost)
  await forgetIn(engine, trx, lost)
  const last = rows.at(-1)
  return last ? Number(last.id) : null
}

/**
 * Replaces these names in events that name no user by its id: failures were cleared of an email that had no user, or of
 * a client.
 */
export async function forgetNames(
  engine: Engine,
  trx: Transaction<Schema>,
  pseudonyms: Map<string, string>,
): Promise<void> {
  if (pseudonyms.size === 0) return
  const { rows } = await sql<EventRow>`select ${COLUMNS} from audit_events
    where target in (${sql.join([...pseudonyms.keys()])}) and target_id is null`.execute(trx)
  await replace(engine, trx, rows, ({ target }) => pseudonyms.get(target) ?? target)
}

/** Events of users. Their earlier emails are forgotten where no id names the user. */
async function forgetIn(engine: Engine, trx: Transaction<Schema>, rows: EventRow[]): Promise<void> {
  const names = rows.flatMap(row => {
    const emails = [row.target, toFacts(row.before)?.email, toFacts(row.after)?.email]
    return emails.flatMap(email => (email ? [[String(email), pseudonymFor(row)] as const] : []))
  })
  await replace(engine, trx, rows, pseudonymFor)
  await forgetNames(engine, trx, new Map(names))
}

function pseudonymFor({ target, target_id }: EventRow): string {
  return target_id === null ? target : pseudonymOf(target_id)
}

async function replace(
  engine: Engine,
  trx: Transaction<Schema>,
  rows: EventRow[],
  pseudonymFor: (row: EventRow) => string,
): Promise<void> {
  const replaced = rows.map(row => {
    const target = pseudonymFor(row)
    return {
      id: row.id,
      target,
      target_id: null,
      before: withPseudonym(toFacts(row.before), target),
      after: withPseudonym(toFacts(row.after), target),
    }
  })
  await updateRows(engine.name, trx, 'audit_events', replaced)
}

function withPseudonym(facts: AuditFacts | null, pseudonym: string): AuditFacts | null {
  const names = Object.entries(facts ?? {}).map(([name, value]) => [
    name,
    PERSONAL.includes(name) ? pseudonym : value,
  ])
  return facts && Object.fromEntries(names)
}
