// One atomic change, on either engine.
import type { Transaction } from 'kysely'
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
      if (engine.name === 'postgres' && scopes.length > 0) await lockRows(trx, scopes)
      return operation(trx)
    }),
  )
}

async function lockRows(trx: Transaction<Schema>, scopes: Keyed[]): Promise<void> {
  await trx
    .selectFrom('login_throttle')
    .select('key')
    .where('key', 'in', keysOf(scopes))
    .orderBy('key')
    .forUpdate()
    .execute()
}
