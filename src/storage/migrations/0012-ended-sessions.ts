// Adds the ids of ended sessions whose rows were removed with their user.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(
  db: Kysely<unknown>,
  { uuid, time, isTime, options }: ColumnTypes,
): Promise<void> {
  await sql`create table ended_sessions (
    id ${uuid.type} not null primary key ${uuid.check('id')},
    ended_at ${time.type} not null ${isTime('ended_at')}
  ) ${options}`.execute(db)
  await sql`create index ended_sessions_ended_at on ended_sessions (ended_at, id)`.execute(db)
}
