// Users, as administrators see and change them.
import { sql, type Transaction, type UpdateObject } from 'kysely'
import type { AttemptStore } from '../../domain/attempt.ts'
import type { AuditAction, Change } from '../../domain/audit.ts'
import type { User, UserStore } from '../../domain/user.ts'
import { digestOf } from '../../identifiers.ts'
import { changedFacts, writeAudit } from './audit.ts'
import { deleteUser } from './delete-user.ts'
import { endAllSessions, isOfUser } from './end-all-sessions.ts'
import { type Engine, transact } from './engine.ts'
import { listEmails } from './list-emails.ts'
import { listUsers } from './list-users.ts'
import { formatTime, type Schema } from './schema.ts'
import { setUser } from './set-user.ts'
import { clearFailures, isOfEmail } from './throttle-rows.ts'
import { isChanged, toUser } from './user-rows.ts'

type Users = Omit<UserStore, 'listDevices' | 'revokeDevice' | 'endUserSession'> &
  Pick<AttemptStore, 'upgradePasswordHash'>

type UserChange = {
  action: AuditAction
  columns: UpdateObject<Schema, 'users'>
  endsSessions?: boolean
  /** Clears other rows as well; false if there was nothing to clear. */
  clear?: (trx: Transaction<Schema>) => Promise<boolean>
}

export function createUsers(engine: Engine): Users {
  const { db } = engine

  async function findUser(column: 'email' | 'id', value: string): Promise<User | null> {
    const row = await engine.retrying(() =>
      db.selectFrom('users').selectAll().where(column, '=', value).executeTakeFirst(),
    )
    return row ? toUser(row) : null
  }

  /** Changes a user and records it. The throttle's rows are locked before the user's, as logins do. */
  async function changeUser(
    email: string,
    change: Change,
    { action, columns, endsSessions, clear }: UserChange,
  ): Promise<boolean> {
    return transact(engine, async trx => {
      const hasCleared = await clear?.(trx)
      const found = await trx
        .selectFrom('users')
        .selectAll()
        .where(isChanged(email, change))
        .$if(engine.name === 'postgres', query => query.forNoKeyUpdate())
        .executeTakeFirst()
      const event = { action, target: email, targetId: null }
      if (!found) {
        if (hasCleared) await writeAudit(trx, change, event)
        return false
      }
      const changed = await trx
        .updateTable('users')
        .set({ ...columns, updated_at: formatTime(change.at) })
        .where('id', '=', found.id)
        .returningAll()
        .executeTakeFirstOrThrow()
      if (endsSessions) await endAllSessions(engine, trx, isOfUser(found.id), change.at)
      const isNewPassword = columns.password_hash !== undefined
      // An attacker that knew the old password may have logged in with it and made a device known.
      if (isNewPassword) await trx.deleteFrom('devices').where('user_id', '=', found.id).execute()
      const facts = changedFacts(toUser(found), toUser(changed))
      if (facts || hasCleared || isNewPassword) {
        await writeAudit(trx, change, { ...event, targetId: found.id, ...facts })
      }
      return true
    })
  }

  return {
    findUserByEmail: email => findUser('email', email),
    findUserById: id => findUser('id', id),

    listUsers: (filter, page, now) => listUsers(engine, filter, page, now),

    async countUsers() {
      const { users } = await db
        .selectFrom('users')
        .select(count => count.fn.countAll().as('users'))
        .executeTakeFirstOrThrow()
      return Number(users)
    },

    listEmails: (from, since) => listEmails(engine, from, since),

    async countHashCosts() {
      const { rows } = await sql<{ prefix: string; users: number | string }>`
        select substr(password_hash, 1, 7) as prefix, count(*) as users from users
        group by substr(password_hash, 1, 7) order by 1`.execute(db)
      const costs = new Map<number | null, number>()
      for (const { prefix, users } of rows) {
        const digits = /^\$2[aby]\$(\d\d)\$$/.exec(prefix)?.[1]
        const cost = digits === undefined ? null : Number(digits)
        costs.set(cost, (costs.get(cost) ?? 0) + Number(users))
      }
      return [...costs].map(([cost, users]) => ({ cost, users }))
    },

    insertUser: (user, change) =>
      transact(engine, async trx => {
        const moment = formatTime(change.at)
        const inserted = await trx
          .insertInto('users')
          .values({
            id: user.id,
            email: user.email,
            password_hash: user.passwordHash,
            name: user.name,
            role: user.role,
            created_at: moment,
            updated_at: moment,
          })
          .onConflict(conflict => conflict.column('email').doNothing())
          .returning('id')
          .executeTakeFirst()
        if (!inserted) return false
        await writeAudit(trx, change, {
          action: 'user.added',
          target: user.email,
          targetId: user.id,
          after: { name: user.name, role: user.role },
        })
        return true
      }),

    async upgradePasswordHash(userId, oldHash, newHash, now) {
      await transact(engine, trx =>
        trx
          .updateTable('users')
          .set({
            password_hash: newHash,
            upgraded_from: digestOf(oldHash),
            updated_at: formatTime(now),
          })
          .where('id', '=', userId)
          .where('password_hash', '=', oldHash)
          .execute(),
      )
    },

    setPassword: (email, passwordHash, change) =>
      changeUser(email, change, {
        action: 'password.set',
        columns: { password_hash: passwordHash, upgraded_from: null },
        endsSessions: true,
      }),
    deactivateUser: (email, change) =>
      changeUser(email, change, {
        action: 'user.deactivated',
        columns: { is_active: 0 },
        endsSessions: true,
      }),
    activateUser: (email, change) =>
      changeUser(email, change, { action: 'user.activated', columns: { is_active: 1 } }),
    lockUser: (email, until, change) =>
      changeUser(email, change, {
        action: 'user.locked',
        columns: { locked_until: formatTime(until), locked_by: 'administrator' },
        endsSessions: true,
      }),
    unlockUser: (email, change) =>
      changeUser(email, change, {
        action: 'user.unlocked',
        columns: { locked_until: null, locked_by: null, failed_login_attempts: 0 },
        clear: async trx => (await clearFailures(engine, trx, isOfEmail(email))) !== null,
      }),

    endUserSessions: (email, change) =>
      transact(engine, async trx => {
        const found = await trx
          .selectFrom('users')
          .select('id')
          .where(isChanged(email, change))
          .$if(engine.name === 'postgres', query => query.forNoKeyUpdate())
          .executeTakeFirst()
        if (!found) return null
        const ended = await endAllSessions(engine, trx, isOfUser(found.id), change.at)
        const event = { action: 'sessions.ended' as const, target: email, targetId: found.id }
        await writeAudit(trx, change, event)
        return ended.length
      }),

    setUser: (email, fields, change) => setUser(engine, email, fields, change),

    deleteUser: (email, change) => deleteUser(engine, email, change),
  }
}
