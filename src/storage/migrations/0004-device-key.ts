import { randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

/** The key with which all instances tag device cookies. Older cookies have no tag and are not accepted. */
export async function up(db: Kysely<unknown>, { options }: ColumnTypes): Promise<void> {
  await sql`create table device_key (
      id integer primary key check (id = 1),
      key text not null check (length(key) = 64)
    ) ${options}`.execute(db)
  const key = randomBytes(32).toString('hex')
  await sql`insert into device_key (id, key) values (1, ${key})`.execute(db)
}
