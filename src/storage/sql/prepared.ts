// The statements of a login, built and compiled once: building one takes longer than running it.
import {
  CompiledQuery,
  type Kysely,
  PostgresAdapter,
  type RawBuilder,
  type Transaction,
} from 'kysely'
import type { DatabaseConfig } from '../../config/database.ts'
import { digestOf } from '../../system/identifiers.ts'
import type { Schema } from './schema.ts'

/** A parameter of a prepared statement: stands for a value until the statement is run. */
class Parameter {
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

/** Binds values to the statement's parameters, for the engine of this database. */
export type Statement<Values, Row> = (db: Kysely<Schema>, values: Values) => BoundStatement<Row>
/** Ready to be run. `yields` is never set: it carries the type of the rows. */
export type BoundStatement<Row> = { name: string; sql: string; parameters: unknown[]; yields?: Row }

/** Runs one prepared statement. */
export type RunStatement = <Values, Row>(
  statement: Statement<Values, Row>,
  values: Values,
) => Promise<Row[]>

/**
 * A transaction that is written once for both engines: a generator that yields its statements. SQLite runs each of them at
 * once. PostgreSQL sends them together, and waits only where the next step needs an answer (`postgres/transaction.ts`).
 */
export type Steps<Result> = Generator<Step, Result, void>

/** One statement of such a transaction, and its rows once it has run. */
export class Step<Row = unknown> {
  readonly bind: (db: Kysely<Schema>) => BoundStatement<Row>
  readonly isAwaited: boolean
  #rows: Row[] | undefined

  constructor(bind: Step<Row>['bind'], isAwaited: boolean) {
    this.bind = bind
    this.isAwaited = isAwaited
  }

  get rows(): Row[] {
    if (!this.#rows)
      throw new Error('the rows of a statement were read before `run` waited for them')
    return this.#rows
  }

  set rows(rows: Row[]) {
    this.#rows = rows
  }
}

/** Runs a statement and waits for it and all before it: `const rows = yield* run(statement, values)`. */
export function* run<Values, Row>(statement: Statement<Values, Row>, values: Values): Steps<Row[]> {
  const step = new Step(db => statement(db, values), true)
  yield step
  return step.rows
}

/** Sends a statement together with the next ones. Its rows can be read after the next `run`. */
export function* send<Values, Row>(
  statement: Statement<Values, Row>,
  values: Values,
): Steps<Step<Row>> {
  const step = new Step(db => statement(db, values), false)
  yield step
  return step
}

/** Runs prepared statements as a part of another transaction. */
export async function runWithin<T>(trx: Transaction<Schema>, steps: Steps<T>): Promise<T> {
  let next = steps.next()
  for (; !next.done; next = steps.next()) {
    const { sql, parameters } = next.value.bind(trx)
    const { rows } = await trx.executeQuery(CompiledQuery.raw(sql, parameters))
    next.value.rows = rows
  }
  return next.value
}

/** `build` makes the statement from parameters that have the type of the values they stand for. */
export function prepare<Values extends Record<string, unknown>, Row = unknown>(
  build: (parameters: Values, engine: DatabaseConfig['engine']) => RawBuilder<Row>,
): Statement<Values, Row> {
  // Reading any property returns a parameter of that name.
  const parameters = new Proxy({} as Values, { get: (_, name) => new Parameter(String(name)) })
  const statements = new WeakMap<Kysely<Schema>, BoundStatement<Row>>()

  return (db, values) => {
    let statement = statements.get(db)
    if (!statement) {
      const compiled = sendOnce(build(parameters, engineOf(db)).compile(db))
      // PostgreSQL keeps the plan of a statement under its name.
      statement = { name: digestOf(compiled.sql).slice(0, 32), ...compiled }
      statements.set(db, statement)
    }
    return {
      ...statement,
      parameters: statement.parameters.map(parameter =>
        parameter instanceof Parameter ? values[parameter.name] : parameter,
      ),
    }
  }
}

/** Sends a parameter that PostgreSQL's statement mentions several times once. SQLite's are not numbered. */
function sendOnce({ sql, parameters }: CompiledQuery): { sql: string; parameters: unknown[] } {
  if (!sql.includes('$1')) return { sql, parameters: [...parameters] }
  const sent: unknown[] = []
  const text = sql.replace(/\$(\d+)/g, (_, number) => {
    const parameter = parameters[number - 1]
    const isSame = (other: unknown) =>
      parameter instanceof Parameter && other instanceof Parameter && other.name === parameter.name
    const index = sent.findIndex(isSame)
    return `$${index === -1 ? sent.push(parameter) : index + 1}`
  })
  return { sql: text, parameters: sent }
}

function engineOf(db: Kysely<Schema>): DatabaseConfig['engine'] {
  return db.getExecutor().adapter instanceof PostgresAdapter ? 'postgres' : 'sqlite'
}
