// The statements of a login, built and compiled once: that takes longer than to run them.
import type { CompiledQuery, Insertable, Kysely } from 'kysely'
import { digestOf } from '../digest.ts'
import type { Schema } from './schema.ts'

class Hole {
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

/** Fills in the values, for the engine of this database. */
export type Statement<Values, Row> = (db: Kysely<Schema>, values: Values) => Filled<Row>
/** Ready to be run; what it is expected to yield is in its type only. */
export type Filled<Row> = { sql: string; parameters: unknown[]; yields?: Row }

type Compile<Values, Row> = (
  db: Kysely<Schema>,
  holes: Values,
  firstValues: Values,
) => CompiledQuery<Row>

/** The names of all that were compiled, under which a server can keep its plans. */
export const statementNames = new Map<string, string>()

/** A statement of either engine, with a hole for each value that a run fills in. */
export function prepare<Values extends Record<string, unknown>, Row = unknown>(
  compile: Compile<Values, Row>,
): Statement<Values, Row> {
  // Whatever is asked of it, it has a hole of that name.
  const holes = new Proxy({} as Values, { get: (_, name) => new Hole(String(name)) })
  const compiled = new WeakMap<object, CompiledQuery<Row>>()

  return (db, values) => {
    // Shared by a database and its transactions.
    const { adapter } = db.getExecutor()
    let statement = compiled.get(adapter)
    if (!statement) {
      statement = compile(db, holes, values)
      compiled.set(adapter, statement)
      statementNames.set(statement.sql, digestOf(statement.sql).slice(0, 32))
    }
    return {
      sql: statement.sql,
      parameters: statement.parameters.map(parameter =>
        parameter instanceof Hole ? values[parameter.name] : parameter,
      ),
    }
  }
}

/** An insertion of rows that all name the same columns. */
export function prepareInsert<Table extends keyof Schema>(
  table: Table,
): Statement<Insertable<Schema[Table]>, unknown> {
  return prepare<Insertable<Schema[Table]>>((db, holes, firstRow) => {
    const columns = Object.keys(firstRow) as (keyof typeof holes)[]
    const row = Object.fromEntries(columns.map(column => [column, holes[column]]))
    return db
      .insertInto(table)
      .values(row as typeof firstRow)
      .compile()
  })
}
