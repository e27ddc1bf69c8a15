// One atomic change, on either engine.
import type { Kysely, Transaction } from 'kysely'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'

export function transact<T>(
  engine: Engine,
  operation: (trx: Transaction<Schema>) => Promise<T>,
): Promise<T> {
  return engine.retrying(() => engine.db.transaction().execute(operation))
}

/** One statement: PostgreSQL commits it without a further round trip, SQLite takes the write lock first. */
export function write<T>(
  engine: Engine,
  statement: (db: Kysely<Schema>) => Promise<T>,
): Promise<T> {
  return engine.name === 'postgres'
    ? engine.retrying(() => statement(engine.db))
    : transact(engine, statement)
}
