// The statements of a login, built and compiled once: that takes longer than to run them.
import type { CompiledQuery, Insertable, Kysely } from 'kysely'
import type { Schema } from './schema.ts'

class Hole {
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

/** A statement of either engine, with a hole for each value that a run fills in. */
export function prepare<Values extends Record<string, unknown>, Row = unknown>(
  compile: (db: Kysely<Schema>, holes: Values) => CompiledQuery<Row>,
): (db: Kysely<Schema>, values: Values) => Promise<Row[]> {
  // Whatever is asked of it, it has a hole of that name.
  const holes = new Proxy({} as Values, { get: (_, name) => new Hole(String(name)) })
  const compiled = new WeakMap<object, CompiledQuery<Row>>()

  return async (db, values) => {
    // Shared by a database and its transactions.
    const { adapter } = db.getExecutor()
    const statement = compiled.get(adapter) ?? compile(db, holes)
    compiled.set(adapter, statement)
    const parameters = statement.parameters.map(parameter =>
      parameter instanceof Hole ? values[parameter.name] : parameter,
    )
    const query: CompiledQuery<Row> = { ...statement, parameters }
    const { rows } = await db.executeQuery(query)
    return rows
  }
}

type Prepared = (db: Kysely<Schema>, values: Record<string, unknown>) => Promise<unknown[]>
const inserts = new Map<string, Prepared>()

export async function insertRow<Table extends keyof Schema>(
  db: Kysely<Schema>,
  table: Table,
  row: Insertable<Schema[Table]>,
): Promise<void> {
  const columns = Object.keys(row)
  const shape = [table, ...columns].join()
  const insert = inserts.get(shape) ?? prepareInsert(table, columns)
  inserts.set(shape, insert)
  await insert(db, row)
}

function prepareInsert(table: keyof Schema, columns: string[]): Prepared {
  return prepare<Record<string, unknown>>((db, holes) => {
    const row = Object.fromEntries(columns.map(column => [column, holes[column]]))
    return db.insertInto(table).values(row).compile()
  })
}
