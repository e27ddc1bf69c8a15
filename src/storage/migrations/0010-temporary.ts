// Adds the end of a temporary password. Null for a password that the user has chosen.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, { time, isTime }: ColumnTypes): Promise<void> {
  // Both tables keep the same columns in the same order.
  for (const table of ['users', 'unknown_user']) {
    await sql`alter table ${sql.table(table)}
      add column temporary_until ${time.type} ${isTime('temporary_until')}`.execute(db)
  }
}
