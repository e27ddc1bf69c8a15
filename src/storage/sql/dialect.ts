// Parts of statements that the two engines spell differently, and an update that is made of them.
import { type Expression, type Kysely, sql } from 'kysely'
import type { Engine, EngineName } from './engine.ts'
import type { Schema } from './schema.ts'

/**
 * True for rows whose column has one of the values that a query selects. The array makes PostgreSQL look up
 * each value in the column's index; for a subquery it might read the whole table.
 */
export function isAmong(engine: EngineName, column: string, query: Expression<unknown>) {
  return engine === 'postgres'
    ? sql<boolean>`${sql.ref(column)} = any (array(${query}))`
    : sql<boolean>`${sql.ref(column)} in (${query})`
}

/** Locks the rows that a query selects. SQLite needs no row locks: it has one writer at a time. */
export function lockClause({ name }: Engine, mustWait: boolean) {
  if (name === 'sqlite') return sql``
  return mustWait ? sql`for update` : sql`for update skip locked`
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

/** Gives each stored row with the id of a given one its other values. The given rows have the same columns. */
export async function updateRows(
  engine: EngineName,
  trx: Kysely<Schema>,
  table: 'users',
  rows: ({ id: unknown } & Record<string, unknown>)[],
): Promise<void> {
  const [first] = rows
  if (!first) return
  const columns = Object.keys(first)
  const assignments = columns
    .filter(column => column !== 'id')
    .map(column => sql`${sql.ref(column)} = given.${sql.ref(column)}`)
  const id = `${table}.id`
  // Looked up by their ids too: for the join alone PostgreSQL might read the whole table.
  const ids = rowsAsJson(engine, table, ['id'], rows)
  await sql`update ${sql.table(table)} set ${sql.join(assignments)}
    from (${rowsAsJson(engine, table, columns, rows)}) given
    where ${sql.ref(id)} = given.id and ${isAmong(engine, id, ids)}`.execute(trx)
}
