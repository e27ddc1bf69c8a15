// Reads a user and locks it as a login does, until the transaction of a change ends.
import type { Transaction } from 'kysely'
import type { User } from '../../domain/user.ts'
import { type Engine, Overtaken } from './engine.ts'
import type { Schema } from './schema.ts'
import { toUser } from './user-rows.ts'

/**
 * Null if there is no such user. `lockThrottle` changes rows of the throttle by the user's email: a login locks them
 * before the user, so the email is read first. On SQLite nothing can change in between.
 */
export async function lockForChange(
  engine: Engine,
  trx: Transaction<Schema>,
  id: string,
  lockThrottle?: (email: string) => Promise<void>,
): Promise<User | null> {
  const find = trx.selectFrom('users').selectAll().where('id', '=', id)
  const known = lockThrottle && (await find.executeTakeFirst())
  if (known) await lockThrottle(known.email)
  const row = await find
    .$if(engine.name === 'postgres', query => query.forNoKeyUpdate())
    .executeTakeFirst()
  if (known && known.email !== row?.email) throw new Overtaken('the email changed')
  return row ? toUser(row) : null
}
