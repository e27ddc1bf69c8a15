// Parts of statements that the two engines spell differently.
import { type Expression, sql } from 'kysely'
import type { EngineName } from './engine.ts'

/**
 * True for rows whose column has one of the values that a query selects. The array makes PostgreSQL look up
 * each value in the column's index; for a subquery it might read the whole table.
 */
export function isAmong(engine: EngineName, column: string, query: Expression<unknown>) {
  return engine === 'postgres'
    ? sql<boolean>`${sql.ref(column)} = any (array(${query}))`
    : sql<boolean>`${sql.ref(column)} in (${query})`
}

/**
 * A query of rows that are passed as one parameter. Thousands of parameters would take longer to build into a
 * statement than the statement takes to run.
 */
export function rowsAsJson(
  engine: EngineName,
  table: string,
  columns: string[],
  rows: Record<string, unknown>[],
) {
  if (engine === 'postgres') {
    const names = sql.join(columns.map(column => sql.ref(column)))
    return sql`select ${names}
      from json_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)}::json)`
  }
  const values = columns.map(
    (column, index) => sql`value ->> ${sql.lit(index)} as ${sql.ref(column)}`,
  )
  // SQLite finds values faster in arrays.
  const arrays = JSON.stringify(rows.map(row => columns.map(column => row[column])))
  return sql`select ${sql.join(values)} from json_each(${arrays})`
}
