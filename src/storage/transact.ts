// One atomic change, on either engine.
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'
import { type Keyed, keysOf } from './throttle-rows.ts'

/** One transaction; in PostgreSQL it first locks the throttle rows, in the order of every other. */
export function transact<T>(
  engine: Engine,
  scopes: Keyed[],
  operation: (trx: Transaction<Schema>) => Promise<T>,
): Promise<T> {
  return engine.retrying(() =>
    engine.db.transaction().execute(async trx => {
      if (engine.name === 'postgres' && scopes.length > 0) await lockRows(trx, keysOf(scopes))
      return operation(trx)
    }),
  )
}

/** One statement, atomic by itself: PostgreSQL commits it without a further round trip. */
export function write<T>(
  engine: Engine,
  statement: (db: Kysely<Schema>) => Promise<T>,
): Promise<T> {
  return engine.name === 'postgres'
    ? engine.retrying(() => statement(engine.db))
    : transact(engine, [], statement)
}

async function lockRows(trx: Transaction<Schema>, keys: string[]): Promise<void> {
  await sql`select from login_throttle where key = any (${keys}) order by key for update`.execute(
    trx,
  )
}
