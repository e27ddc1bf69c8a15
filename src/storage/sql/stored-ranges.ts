// Reads a whole table in ranges, in the order in which it is stored: through an index, each row would be found by
// itself. A row that changes meanwhile may be missing, or be there twice.
import { sql } from 'kysely'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'

/** SQLite's row ids. */
const ROWS_PER_RANGE = 20_000
/** PostgreSQL's blocks of 8 KiB, each with some thirty rows. */
const BLOCKS_PER_RANGE = 500

type Next = { next: number | null }

/** The first range starts at 0. */
export function storedRange(engine: Engine, table: keyof Schema, from: number) {
  const isSqlite = engine.name === 'sqlite'
  const to = from + (isSqlite ? ROWS_PER_RANGE : BLOCKS_PER_RANGE)
  const following = isSqlite
    ? sql<Next>`select min(rowid) as next from ${sql.table(table)} where rowid >= ${to}`
    : sql<Next>`select case when ${to}::int * current_setting('block_size')::bigint
        < pg_relation_size(${table}) then ${to}::int end as next`
  return {
    contains: isSqlite
      ? sql<boolean>`rowid >= ${from} and rowid < ${to}`
      : sql<boolean>`ctid >= ${`(${from},0)`}::tid and ctid < ${`(${to},0)`}::tid`,
    /** The start of the next range; null at the end. */
    async next(): Promise<number | null> {
      const { rows } = await engine.retrying(() => following.execute(engine.db))
      return rows[0]?.next ?? null
    },
  }
}
