// Deletes a user with its sessions, refresh tokens and devices, and forgets it in the audit, in batches so that no
// statement takes long.
import { setImmediate } from 'node:timers/promises'
import type { Transaction } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import { writeAudit } from './audit.ts'
import { endAllSessions, isOfUser } from './end-all-sessions.ts'
import { keepEnded } from './ended-sessions.ts'
import { type Engine, transact } from './engine.ts'
import { forgetNames, forgetUser, pseudonymOf } from './forget-user.ts'
import { chooseSessions, clearSessions } from './remove-sessions.ts'
import type { Schema } from './schema.ts'

export async function deleteUser(
  engine: Engine,
  id: string,
  change: Change,
): Promise<number | null> {
  // From here on the user has no live session, and no login opens another.
  const ended = await transact(engine, async trx => {
    const user = await trx
      .updateTable('users')
      .set({ is_active: 0 })
      .where('id', '=', id)
      .returning(['email', 'name', 'role', 'last_login_ip'])
      .executeTakeFirst()
    if (!user) return null
    const addresses = [user.last_login_ip, ...(await findAddresses(trx, id))]
    const pseudonyms = addresses.flatMap(ip => (ip ? [[ip, pseudonymOf(id)] as const] : []))
    await forgetNames(engine, trx, new Map(pseudonyms))
    const { email, name, role } = user
    const event = { action: 'user.deleted' as const, target: email, targetId: id }
    await writeAudit(trx, change, { ...event, before: { name, role } })
    return endAllSessions(engine, trx, isOfUser(id), change.at)
  })
  if (!ended) return null
  // Sessions are deleted before the user: a rotation locks its session's row first, then the user's.
  for (;;) {
    const isDone = await transact(engine, async trx => {
      const chosen = await chooseSessions(engine, trx, {
        condition: isOfUser(id),
        orderBy: 'user_id',
        mustWait: true,
      })
      const ids = chosen.map(({ id }) => id)
      await keepEnded(trx, ids, change.at)
      await clearSessions(engine, trx, chosen, 'remove')
      return chosen.length === 0
    })
    if (isDone) break
    await setImmediate()
  }
  while (!(await forgetAndDelete(engine, id))) await setImmediate()
  await engine.emptyWriteAheadLog()
  return ended.length
}

/** The addresses of the stored sessions, and of the logins before them. */
async function findAddresses(trx: Transaction<Schema>, userId: string) {
  const sessions = await trx
    .selectFrom('sessions')
    .select(['ip', 'last_login_ip'])
    .distinct()
    .where('user_id', '=', userId)
    .execute()
  return sessions.flatMap(session => [session.ip, session.last_login_ip])
}

/** Forgets the user in a batch of events. In the last one also deletes the user with its devices, and returns true. */
function forgetAndDelete(engine: Engine, id: string): Promise<boolean> {
  return transact(engine, async trx => {
    // Changes that add an event lock the user too. It may have been activated meanwhile.
    await trx.updateTable('users').set({ is_active: 0 }).where('id', '=', id).execute()
    const isLast = await forgetUser(engine, trx, id)
    if (isLast) await trx.deleteFrom('users').where('id', '=', id).execute()
    return isLast
  })
}
