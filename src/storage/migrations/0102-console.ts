// Persons at the console as actors of the audit, and events that an actor has once a day.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

/** A table of its own: the audit may have millions of rows, and a new index on them would keep logins waiting. */
export async function up(db: Kysely<unknown>, { engine, uuid, options }: ColumnTypes) {
  const eventId = sql.raw(engine === 'postgres' ? 'bigint' : 'integer')
  for (const statement of [
    sql`create table audit_actors (
      event_id ${eventId} primary key references audit_events (id) on delete cascade,
      -- A change that its deleted actor has asked for is not made.
      user_id ${uuid.type} ${uuid.check('user_id')} references users (id) on delete set null,
      once text unique
    ) ${options}`,
    sql`create index audit_actors_user_id on audit_actors (user_id, event_id)`,
  ]) {
    await statement.execute(db)
  }
}
