// Reads a user and locks it as a login does, until the transaction of a change ends.
import type { Transaction } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import type { User } from '../../domain/user.ts'
import type { Engine } from './engine.ts'
import { formatTime, type Schema } from './schema.ts'
import { toUser } from './user-rows.ts'

/** Null if there is no such user, or if it is not as it was `seen`. */
export async function lockForChange(
  engine: Engine,
  trx: Transaction<Schema>,
  column: 'id' | 'email',
  value: string,
  seen?: Change['seen'],
): Promise<User | null> {
  const row = await trx
    .selectFrom('users')
    .selectAll()
    .where(column, '=', value)
    .$if(engine.name === 'postgres', query => query.forNoKeyUpdate())
    .executeTakeFirst()
  const user = row ? toUser(row) : null
  const isSeen = !seen || (user?.id === seen.id && +user.updatedAt === +seen.updatedAt)
  return isSeen ? user : null
}

/** The time of a change of the user, later than that of the last one: a page that was made before it is out of date. */
export function updateTime(found: User, { at }: Change): string {
  return formatTime(new Date(Math.max(at.getTime(), found.updatedAt.getTime() + 1)))
}
