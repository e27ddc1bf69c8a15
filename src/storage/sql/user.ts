// Users, as administrators see and change them.
import { sql, type UpdateObject } from 'kysely'
import type { AuditAction, Change } from '../../domain/audit.ts'
import type { NewUser, User, UserDetails, UserFields, UserStore } from '../../domain/user.ts'
import { digestOf } from '../../system/identifiers.ts'
import { changedFacts, detailsOf, writeAudit } from './audit.ts'
import { deleteUser } from './delete-user.ts'
import { endAllSessions, isOfUser } from './end-all-sessions.ts'
import { type Engine, transact } from './engine.ts'
import { listUsers } from './list-users.ts'
import { lockForChange, updateTime } from './lock-for-change.ts'
import { runWithin } from './prepared.ts'
import { formatTime, type Schema } from './schema.ts'
import { clearEmail } from './throttle-rows.ts'
import { type ColumnOf, toUser } from './user-rows.ts'

const EMAILS_PER_PAGE = 10_000

type UserChange = {
  action: AuditAction
  columns: UpdateObject<Schema, 'users'>
  endsSessions?: boolean
  /** Clears the failures and blocks of the user's email. */
  clearsFailures?: boolean
}

export function createUsers(engine: Engine): UserStore {
  const { db } = engine

  async function find(column: 'email' | 'id', value: string): Promise<User | null> {
    const row = await engine.retrying(() =>
      db.selectFrom('users').selectAll().where(column, '=', value).executeTakeFirst(),
    )
    return row ? toUser(row) : null
  }

  function changeUser(
    id: string,
    change: Change,
    { action, columns, endsSessions, clearsFailures }: UserChange,
  ): Promise<User | null> {
    return transact(engine, async trx => {
      const found = await lockForChange(engine, trx, 'id', id, change.seen)
      if (!found) return null
      const cleared = clearsFailures && (await runWithin(trx, clearEmail(found.email, change.at)))
      const row = await trx
        .updateTable('users')
        .set({ ...columns, updated_at: updateTime(found, change) })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow()
      const changed = toUser(row)
      if (endsSessions) await endAllSessions(engine, trx, isOfUser(id), change.at)
      const isNewPassword = columns.password_hash !== undefined
      // An attacker that knew the old password may have logged in with it and made a device known.
      if (isNewPassword) await trx.deleteFrom('devices').where('user_id', '=', id).execute()
      const facts = changedFacts(found, changed)
      if (facts || cleared || isNewPassword) {
        await writeAudit(trx, change, { action, target: found.email, targetId: id, ...facts })
      }
      return changed
    })
  }

  return {
    findByEmail: email => find('email', email),
    findById: id => find('id', id),

    list: (filter, page, now) => listUsers(engine, filter, page, now),

    async count() {
      const { users } = await db
        .selectFrom('users')
        .select(count => count.fn.countAll().as('users'))
        .executeTakeFirstOrThrow()
      return Number(users)
    },

    async listEmails(after) {
      const rows = await engine.retrying(() =>
        db
          .selectFrom('users')
          .select('email')
          .where('email', '>', after)
          .orderBy('email')
          .limit(EMAILS_PER_PAGE)
          .execute(),
      )
      return rows.map(({ email }) => email)
    },

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

    insert: ({ id, email, passwordHash, name, role, temporaryUntil }, change) =>
      transact(engine, async trx => {
        const moment = formatTime(change.at)
        const temporaryEnd = temporaryUntil ? formatTime(temporaryUntil) : null
        const inserted = await trx
          .insertInto('users')
          .values({
            id,
            email,
            password_hash: passwordHash,
            name,
            role,
            temporary_until: temporaryEnd,
            created_at: moment,
            updated_at: moment,
          } satisfies Record<ColumnOf<keyof NewUser | 'createdAt' | 'updatedAt'>, unknown>)
          .onConflict(conflict => conflict.column('email').doNothing())
          .returning('id')
          .executeTakeFirst()
        if (!inserted) return false
        const temporary = temporaryEnd && { temporaryUntil: temporaryEnd }
        const after = { ...detailsOf({ name, role }), ...temporary }
        await writeAudit(trx, change, { action: 'user.added', target: email, targetId: id, after })
        return true
      }),

    async upgradePasswordHash(id, oldHash, newHash, now) {
      await transact(engine, trx =>
        trx
          .updateTable('users')
          .set({
            password_hash: newHash,
            upgraded_from: digestOf(oldHash),
            updated_at: formatTime(now),
          })
          .where('id', '=', id)
          .where('password_hash', '=', oldHash)
          .execute(),
      )
    },

    setPassword: (id, passwordHash, change, temporaryUntil = null) =>
      changeUser(id, change, {
        action: 'password.set',
        columns: {
          password_hash: passwordHash,
          ...{ upgraded_from: null, failed_second_steps: 0 },
          temporary_until: temporaryUntil && formatTime(temporaryUntil),
        },
        endsSessions: true,
      }),
    deactivate: (id, change) =>
      changeUser(id, change, {
        action: 'user.deactivated',
        columns: { is_active: 0 },
        endsSessions: true,
      }),
    activate: (id, change) =>
      changeUser(id, change, { action: 'user.activated', columns: { is_active: 1 } }),
    lock: (id, until, change) =>
      changeUser(id, change, {
        action: 'user.locked',
        columns: { locked_until: formatTime(until), locked_by: 'administrator' },
        endsSessions: true,
      }),
    unlock: (id, change) =>
      changeUser(id, change, {
        action: 'user.unlocked',
        columns: {
          ...{ locked_until: null, locked_by: null },
          ...{ failed_login_attempts: 0, failed_second_steps: 0 },
        },
        clearsFailures: true,
      }),

    set: (id, fields, change) => setUser(engine, id, fields, change),

    delete: (id, change) => deleteUser(engine, id, change),
  }
}

/** Changes the details of a user. */
async function setUser(
  engine: Engine,
  id: string,
  fields: UserFields,
  change: Change,
): ReturnType<UserStore['set']> {
  try {
    return await transact(engine, async trx => {
      const before = await lockForChange(engine, trx, 'id', id, change.seen)
      if (!before) return 'unknown'
      const { email = before.email } = fields
      // The block of the old email stays with it, and so the user need not wait.
      const isFreed = email !== before.email && before.lockedBy === 'throttle'
      const lock = isFreed ? { lockedUntil: null, lockedBy: null } : {}
      const facts = changedFacts(before, { ...before, ...fields, ...lock })
      if (!facts) return { user: before, isChanged: false }
      const row = await trx
        .updateTable('users')
        .set({
          email: fields.email,
          name: fields.name,
          role: fields.role,
          updated_at: updateTime(before, change),
        } satisfies Record<ColumnOf<keyof UserDetails | 'updatedAt'>, unknown>)
        .$if(isFreed, query => query.set({ locked_until: null, locked_by: null }))
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow()
      const event = { action: 'user.changed' as const, target: before.email, targetId: id }
      await writeAudit(trx, change, { ...event, ...facts })
      return { user: toUser(row), isChanged: true }
    })
  } catch (error) {
    // Only the email must be unique. The database decides between parallel changes.
    if (isUniqueViolation(error)) return 'taken'
    throw error
  }
}

/** The codes of PostgreSQL (SQLSTATE) and of SQLite (SQLITE_CONSTRAINT_UNIQUE). */
function isUniqueViolation(error: unknown): boolean {
  const { code, errcode } = Object(error)
  return code === '23505' || errcode === 2067
}
