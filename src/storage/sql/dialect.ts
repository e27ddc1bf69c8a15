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
 * True for rows of a table that are among the rows `given`. PostgreSQL also looks their keys up, because for the join
 * alone it might read the whole table. SQLite would then read all given rows for each of the keys.
 */
export function isGiven(engine: EngineName, table: string, key: string, keys: Expression<unknown>) {
  const column = `${table}.${key}`
  const isJoined = sql<boolean>`${sql.ref(column)} = ${sql.ref(`given.${key}`)}`
  return engine === 'postgres' ? sql`${isJoined} and ${isAmong(engine, column, keys)}` : isJoined
}

/**
 * The end of a query: locks its rows until the transaction ends. In SQLite each transaction holds the only write lock.
 * Transactions lock in this order, so that no deadlock occurs: login codes, users by email, scopes of the throttle
 * by key, sessions by `created_at` and id, refresh tokens. Two changes of users may wait for each other, and are repeated:
 * the end of a deletion, if the user was activated meanwhile, and a new email that another transaction writes too.
 */
export function locking(engine: EngineName, strength: 'update' | 'no key update') {
  return engine === 'postgres' ? sql`for ${sql.raw(strength)}` : sql``
}

/** A query of texts that are passed as the JSON of an array, so that a statement is the same for any number. */
export function textsOf(engine: EngineName, json: string) {
  return engine === 'postgres'
    ? sql`select json_array_elements_text(${json}::json)`
    : sql`select value from json_each(${json})`
}

/** A query of rows that are passed as the JSON of an array of objects. */
export function rowsOf(
  engine: EngineName,
  table: string,
  columns: readonly string[],
  json: string,
) {
  if (engine === 'postgres') {
    const names = sql.join(columns.map(column => sql.ref(column)))
    return sql`select ${names} from json_populate_recordset(null::${sql.table(table)}, ${json}::json)`
  }
  const values = columns.map(column => sql`value ->> ${sql.lit(column)} as ${sql.ref(column)}`)
  return sql`select ${sql.join(values)} from json_each(${json})`
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
  if (engine === 'postgres') return rowsOf(engine, table, columns, JSON.stringify(rows))
  const values = columns.map(
    (column, index) => sql`value ->> ${sql.lit(index)} as ${sql.ref(column)}`,
  )
  // SQLite finds values faster in arrays.
  const arrays = JSON.stringify(rows.map(row => columns.map(column => row[column])))
  return sql`select ${sql.join(values)} from json_each(${arrays})`
}
