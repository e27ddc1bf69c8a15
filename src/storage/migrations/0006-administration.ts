// Adds the record of what administrators change, and indexes for the list of users.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { uuid, time, flag, json, identity, options, isTime, appendOnly } = types
  const statements = [
    // Without a foreign key: the events of a deleted user stay.
    sql`create table audit_events (
      id ${identity},
      at ${time.type} not null ${isTime('at')},
      actor_kind text not null check (actor_kind in ('user', 'token')),
      actor text not null check (length(actor) <= 255),
      host text not null check (length(host) <= 255),
      action text not null check (length(action) <= 50),
      target text not null check (length(target) <= 254),
      target_id ${uuid.type} ${uuid.check('target_id')},
      before ${json.type} ${json.check('before')},
      after ${json.type} ${json.check('after')}
    ) ${options}`,
    sql`create index audit_events_target on audit_events (target, id)`,
    sql`create index audit_events_target_id on audit_events (target_id, id)`,
    ...appendOnly('audit_events'),

    // Dummy rows have the same indexes, so that a block costs as much to write as a user's lock.
    ...['users', 'unknown_user'].flatMap(table => [
      sql.raw(`create index ${table}_role on ${table} (role, email)`),
      sql`create index ${sql.ref(`${table}_inactive`)} on ${sql.table(table)} (email)
        where is_active = ${flag.false}`,
      sql.raw(`create index ${table}_locked on ${table} (email) where locked_until is not null`),
    ]),
  ]
  for (const statement of statements) await statement.execute(db)
}
