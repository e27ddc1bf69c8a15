// The statements of a login, built and compiled once: that takes longer than to run them.
import type { CompiledQuery, Insertable, Kysely } from 'kysely'
import { digestOf } from '../../identifiers.ts'
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
export type Filled<Row> = { name: string; sql: string; parameters: unknown[]; yields?: Row }

type Compile<Values, Row> = (
  db: Kysely<Schema>,
  holes: Values,
  firstValues: Values,
) => CompiledQuery<Row>

/** A statement of either engine, with a hole for each value that a run fills in. */
export function prepare<Values extends Record<string, unknown>, Row = unknown>(
  compile: Compile<Values, Row>,
): Statement<Values, Row> {
  // Whatever is asked of it, it has a hole of that name.
  const holes = new Proxy({} as Values, { get: (_, name) => new Hole(String(name)) })
  const compiled = new WeakMap<Kysely<Schema>, Filled<Row>>()

  return (db, values) => {
    let statement = compiled.get(db)
    if (!statement) {
      const { sql, parameters } = compile(db, holes, values)
      // A server can keep its plan under this name.
      statement = { name: digestOf(sql).slice(0, 32), sql, parameters: [...parameters] }
      compiled.set(db, statement)
    }
    return {
      ...statement,
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
