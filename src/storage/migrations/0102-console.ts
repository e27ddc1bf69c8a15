// Audit events of persons at the console, and events that an actor has once a day.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

const ACTORS = "check (actor_kind in ('user', 'token', 'person'))"
const INDEXES = ['at, id', 'target, id', 'target_id, id']

export async function up(db: Kysely<unknown>, column: ColumnTypes): Promise<void> {
  const { engine, uuid, json, options, time, identity } = column
  const added = [sql`actor_id ${uuid.type} ${uuid.check('actor_id')}`, sql`once text`]
  const statements =
    engine === 'postgres'
      ? [
          sql`alter table audit_events drop constraint audit_events_actor_kind_check`,
          // "not valid" does not read the rows that there are: they meet it.
          sql`alter table audit_events add constraint audit_events_actor_kind_check
            ${sql.raw(ACTORS)} not valid`,
          ...added.map(definition => sql`alter table audit_events add column ${definition}`),
        ]
      : // SQLite cannot change a check: the table is made again, with the same ids.
        [
          sql`create table new_audit_events (
            id ${identity},
            at ${time('at')} not null,
            actor_kind text not null ${sql.raw(ACTORS)},
            actor text not null check (length(actor) <= 255),
            host text not null check (length(host) <= 255),
            action text not null check (length(action) <= 50),
            target text not null check (length(target) <= 254),
            target_id ${uuid.type} ${uuid.check('target_id')},
            before ${json.type} ${json.check('before')},
            after ${json.type} ${json.check('after')},
            ${sql.join(added)}
          ) ${options}`,
          sql`insert into new_audit_events select *, null, null from audit_events`,
          sql`drop table audit_events`,
          sql`alter table new_audit_events rename to audit_events`,
          ...INDEXES.map(columns => {
            const [first] = columns.split(',')
            return sql.raw(`create index audit_events_${first} on audit_events (${columns})`)
          }),
        ]
  for (const statement of [
    ...statements,
    sql`create index audit_events_actor_id on audit_events (actor_id) where actor_id is not null`,
    sql`create unique index audit_events_once on audit_events (once) where once is not null`,
  ]) {
    await statement.execute(db)
  }
}
