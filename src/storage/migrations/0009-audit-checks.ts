// Lets every version of SQLite accept the events that have no fields before or after: json_valid(null) is 0 in older ones.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, { engine, json }: ColumnTypes): Promise<void> {
  if (engine === 'postgres') return
  // The text of the table is replaced, as https://www.sqlite.org/lang_altertable.html allows where the rows stay as
  // they are. Copying a million events would keep logins waiting for seconds.
  await sql`pragma writable_schema = on`.execute(db)
  for (const column of ['before', 'after']) {
    const old = `check (json_valid("${column}"))`
    const { sql: replacement } = json.check(column).compile(db)
    await sql`update sqlite_schema set sql = replace(sql, ${old}, ${replacement})
      where name = 'audit_events'`.execute(db)
  }
  // Tells all connections to read the table's text again.
  const { rows } = await sql<{ schema_version: number }>`pragma schema_version`.execute(db)
  const next = Number(rows[0]?.schema_version) + 1
  await sql`pragma schema_version = ${sql.lit(next)}`.execute(db)
  await sql`pragma writable_schema = off`.execute(db)
}
