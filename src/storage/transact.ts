// One atomic change, on either engine.
import { sql, type Transaction } from 'kysely'
import type { Engine } from './engine.ts'
import { prepare } from './prepared.ts'
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
      if (engine.name === 'postgres' && scopes.length > 0)
        await trx.executeQuery(lockRows(trx, { keys: keysOf(scopes) }))
      return operation(trx)
    }),
  )
}

const lockRows = prepare<{ keys: string[] }>((db, { keys }) =>
  sql`select key from login_throttle where key = any (${keys}) order by key for update`.compile(db),
)
