// Users, as administrators see and change them.
import { sql } from 'kysely'
import type { AttemptStore } from '../../domain/attempt.ts'
import type { OnEnded, UserStore } from '../../domain/user.ts'
import { digestOf } from '../../identifiers.ts'
import { deleteUser } from './delete-user.ts'
import { markEnded, NEXT_GENERATION } from './end-all-sessions.ts'
import { type Engine, transact } from './engine.ts'
import { listUsers } from './list-users.ts'
import { formatTime } from './schema.ts'
import { clearFailures } from './throttle-rows.ts'
import { toUser } from './user-rows.ts'

const EMAILS_PER_PAGE = 5_000

type Users = Omit<UserStore, 'listDevices' | 'revokeDevice'> &
  Pick<AttemptStore, 'upgradePasswordHash'>

export function createUsers(engine: Engine): Users {
  const { db } = engine

  async function changeUser(
    email: string,
    now: Date,
    change: {
      password_hash?: string
      upgraded_from?: null
      is_active?: number
      locked_until?: string
      locked_by?: 'administrator'
    },
    onEnded?: OnEnded,
  ): Promise<boolean> {
    const endsSessions = change.is_active !== 1
    const user = await transact(engine, async trx => {
      const user = await trx
        .updateTable('users')
        .set({
          ...change,
          ...(endsSessions && { session_generation: NEXT_GENERATION }),
          updated_at: formatTime(now),
        })
        .where('email', '=', email)
        .returning('id')
        .executeTakeFirst()
      // An attacker that knew the old password may have logged in with it and made a device known.
      if (user && change.password_hash) {
        await trx.deleteFrom('devices').where('user_id', '=', user.id).execute()
      }
      return user
    })
    if (user && endsSessions) await markEnded(engine, user.id, now, onEnded)
    return user !== undefined
  }

  return {
    async findUserByEmail(email) {
      const row = await engine.retrying(() =>
        db.selectFrom('users').selectAll().where('email', '=', email).executeTakeFirst(),
      )
      return row ? toUser(row) : null
    },

    listUsers: (filter, page, now) => listUsers(engine, filter, page, now),

    async countUsers() {
      const { users } = await db
        .selectFrom('users')
        .select(count => count.fn.countAll().as('users'))
        .executeTakeFirstOrThrow()
      return Number(users)
    },

    async *emailPages() {
      // Pages follow the table's key: an email that is not valid UTF-8 could not be sent back as a parameter.
      const key = sql.ref<string | number>(engine.name === 'sqlite' ? 'rowid' : 'id')
      let after = sql<boolean>`true`
      for (;;) {
        const page = await engine.retrying(() =>
          db
            .selectFrom('users')
            .select([key.as('key'), 'email'])
            .where(after)
            .orderBy(key)
            .limit(EMAILS_PER_PAGE)
            .execute(),
        )
        yield page.map(({ email }) => email)
        const last = page.at(-1)
        if (!last || page.length < EMAILS_PER_PAGE) return
        after = sql<boolean>`${key} > ${last.key}`
      }
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

    async insertUser(user) {
      const moment = formatTime(user.createdAt)
      const inserted = await transact(engine, trx =>
        trx
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
          .executeTakeFirst(),
      )
      return inserted !== undefined
    },

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

    setPassword: (email, passwordHash, now, onEnded) =>
      changeUser(email, now, { password_hash: passwordHash, upgraded_from: null }, onEnded),
    deactivateUser: (email, now, onEnded) => changeUser(email, now, { is_active: 0 }, onEnded),
    activateUser: (email, now) => changeUser(email, now, { is_active: 1 }),
    lockUser: (email, until, now, onEnded) =>
      changeUser(
        email,
        now,
        { locked_until: formatTime(until), locked_by: 'administrator' },
        onEnded,
      ),

    unlockUser: (email, now) =>
      transact(engine, async trx => {
        await clearFailures(engine, trx, digestOf(email))
        const user = await trx
          .updateTable('users')
          .set({
            locked_until: null,
            locked_by: null,
            failed_login_attempts: 0,
            updated_at: formatTime(now),
          })
          .where('email', '=', email)
          .returning('id')
          .executeTakeFirst()
        return user !== undefined
      }),

    deleteUser: (email, onEnded) => deleteUser(engine, email, onEnded),
  }
}
