// The one implementation of the store, on whichever engine it is given.
import { type Kysely, type Selectable, sql, type Transaction } from 'kysely'
import { Migrator } from 'kysely/migration'
import type { Engine } from './engine.ts'
import { migrationsFor } from './migrations/migrations.ts'
import type { Schema } from './schema.ts'
import type { Store, ThrottleScope, User } from './store.ts'
import {
  countFailure,
  forgetFailures,
  forgiveFailures,
  giveBack,
  isNotLockedByAdministrator,
  type Keyed,
  keysOf,
} from './throttle-rows.ts'
import { toText, toTime, toTimeOrNull } from './values.ts'

const SWEEP_ROWS = 500

export function createSqlStore(engine: Engine): Store {
  const { db } = engine

  /** One transaction; in PostgreSQL it first locks the throttle rows, in the order of every other. */
  function transact<T>(
    scopes: Keyed[],
    operation: (trx: Transaction<Schema>) => Promise<T>,
  ): Promise<T> {
    return engine.retrying(() =>
      db.transaction().execute(async trx => {
        if (engine.name === 'postgres' && scopes.length > 0) await lockRows(trx, scopes)
        return operation(trx)
      }),
    )
  }

  async function changeUser(
    email: string,
    now: Date,
    change: {
      password_hash?: string
      is_active?: number
      locked_until?: string
      locked_by?: 'administrator'
    },
  ): Promise<boolean> {
    return transact([], async trx => {
      const user = await trx
        .updateTable('users')
        .set({ ...change, updated_at: toText(now) })
        .where('email', '=', email)
        .returning(['id', 'is_active'])
        .executeTakeFirst()
      if (!user) return false
      if (change.is_active !== 1) await endSessionsOf(trx, user.id, now)
      return true
    })
  }

  return {
    reserveAttempt: engine.reserveAttempt,

    async releaseAttempt(scopes) {
      await transact(scopes, trx => giveBack(trx, scopes))
    },

    settleFailure(scopes, userId, now) {
      return transact(scopes, trx => settleFailureIn(trx, scopes, userId, now))
    },

    openSession(verified, session, refreshToken, scopes, now) {
      return transact(scopes, async trx => {
        const moment = toText(now)
        const user = await trx
          .updateTable('users')
          .set({
            failed_login_attempts: 0,
            // A throttle's lock that is still running is the e-mail scope's, which a success spares.
            locked_until: sql`case when locked_until <= ${moment} then null else locked_until end`,
            locked_by: sql`case when locked_until <= ${moment} then null else locked_by end`,
          })
          .where('id', '=', verified.id)
          .where('password_hash', '=', verified.passwordHash)
          .where(sql<boolean>`is_active`)
          .where(isNotLockedByAdministrator(moment))
          .returning('id')
          .executeTakeFirst()
        if (!user) {
          await settleFailureIn(trx, scopes, verified.id, now)
          return false
        }
        await forgiveFailures(trx, scopes)
        await trx
          .insertInto('sessions')
          .values({
            id: session.id,
            user_id: session.userId,
            created_at: toText(session.createdAt),
            last_used_at: toText(session.createdAt),
            expires_at: toText(session.expiresAt),
            user_agent: session.userAgent,
            ip: session.ip,
          })
          .execute()
        await trx
          .insertInto('refresh_tokens')
          .values({
            id: refreshToken.id,
            user_id: session.userId,
            session_id: session.id,
            token: refreshToken.digest,
            key_id: refreshToken.keyId,
            expires_at: toText(refreshToken.expiresAt),
            created_at: moment,
          })
          .execute()
        return true
      })
    },

    async findUserByEmail(email) {
      const row = await engine.retrying(() =>
        db.selectFrom('users').selectAll().where('email', '=', email).executeTakeFirst(),
      )
      return row ? toUser(row) : null
    },

    async listUsers(afterEmail, limit) {
      const rows = await db
        .selectFrom('users')
        .selectAll()
        .where('email', '>', afterEmail)
        .orderBy('email')
        .limit(limit)
        .execute()
      return rows.map(toUser)
    },

    async countUsers() {
      const { users } = await db
        .selectFrom('users')
        .select(count => count.fn.countAll().as('users'))
        .executeTakeFirstOrThrow()
      return Number(users)
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

    async countLiveSessions(userId, now) {
      const { sessions } = await db
        .selectFrom('sessions')
        .select(count => count.fn.countAll().as('sessions'))
        .where('user_id', '=', userId)
        .where('ended_at', 'is', null)
        .where('expires_at', '>', toText(now))
        .executeTakeFirstOrThrow()
      return Number(sessions)
    },

    async insertUser(user) {
      const moment = toText(user.createdAt)
      const inserted = await transact([], trx =>
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
      await transact([], trx =>
        trx
          .updateTable('users')
          .set({ password_hash: newHash, updated_at: toText(now) })
          .where('id', '=', userId)
          .where('password_hash', '=', oldHash)
          .execute(),
      )
    },

    setPassword: (email, passwordHash, now) =>
      changeUser(email, now, { password_hash: passwordHash }),
    deactivateUser: (email, now) => changeUser(email, now, { is_active: 0 }),
    activateUser: (email, now) => changeUser(email, now, { is_active: 1 }),
    lockUser: (email, until, now) =>
      changeUser(email, now, { locked_until: toText(until), locked_by: 'administrator' }),

    async unlockUser(email, emailDigest, now) {
      const scopes = await engine.retrying(() =>
        db
          .selectFrom('login_throttle')
          .select('key')
          .where('email_digest', '=', emailDigest)
          .execute(),
      )
      return transact(scopes, async trx => {
        await forgetFailures(trx, scopes)
        const user = await trx
          .updateTable('users')
          .set({
            locked_until: null,
            locked_by: null,
            failed_login_attempts: 0,
            updated_at: toText(now),
          })
          .where('email', '=', email)
          .returning('id')
          .executeTakeFirst()
        return user !== undefined
      })
    },

    async deleteUser(email) {
      const deleted = await transact([], trx =>
        trx.deleteFrom('users').where('email', '=', email).returning('id').executeTakeFirst(),
      )
      return deleted !== undefined
    },

    async sweepThrottle(now) {
      const swept = await transact([], trx =>
        trx
          .deleteFrom('login_throttle')
          .where('key', 'in', from => {
            const expired = from
              .selectFrom('login_throttle')
              .select('key')
              .where('expires_at', '<=', toText(now))
              .orderBy('key')
              .limit(SWEEP_ROWS)
            return engine.name === 'postgres' ? expired.forUpdate().skipLocked() : expired
          })
          .executeTakeFirst(),
      )
      return Number(swept.numDeletedRows)
    },

    async checkWritable(now) {
      const checked = { checked_at: toText(now) }
      await transact([], trx =>
        trx
          .insertInto('readiness')
          .values({ id: 1, ...checked })
          .onConflict(conflict => conflict.column('id').doUpdateSet(checked))
          .execute(),
      )
    },

    readClock: engine.readClock,

    async migrate() {
      const { error, results } = await engine.retrying(async () => {
        const attempt = await migratorOf(engine).migrateToLatest()
        if (attempt.error) throw attempt.error
        return attempt
      })
      if (error) throw error
      return results?.map(result => result.migrationName) ?? []
    },

    async listMigrations() {
      const migrations = await engine.retrying(() => migratorOf(engine).getMigrations())
      return migrations.map(({ name, executedAt }) => ({ name, appliedAt: executedAt ?? null }))
    },

    close: () => db.destroy(),
  }
}

function migratorOf({ db, name }: Engine): Migrator {
  return new Migrator({ db, provider: { getMigrations: async () => migrationsFor(name) } })
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

async function settleFailureIn(
  trx: Transaction<Schema>,
  scopes: ThrottleScope[],
  userId: string | null,
  now: Date,
): Promise<number> {
  await countFailure(trx, scopes, now)
  const oneMore = { failed_login_attempts: sql<number>`failed_login_attempts + 1` }
  if (userId === null) {
    // The same write for nobody: a failure of an unknown e-mail must not be the cheaper one.
    await trx
      .updateTable('unknown_user')
      .set(oneMore)
      .where('id', '=', 1)
      .returning('failed_login_attempts')
      .executeTakeFirst()
    return 0
  }
  const user = await trx
    .updateTable('users')
    .set(oneMore)
    .where('id', '=', userId)
    .returning('failed_login_attempts')
    .executeTakeFirst()
  return user?.failed_login_attempts ?? 0
}

async function endSessionsOf(trx: Kysely<Schema>, userId: string, now: Date): Promise<void> {
  await trx
    .updateTable('sessions')
    .set({ ended_at: toText(now) })
    .where('user_id', '=', userId)
    .where('ended_at', 'is', null)
    .execute()
  await trx
    .updateTable('refresh_tokens')
    .set({ revoked_at: toText(now) })
    .where('user_id', '=', userId)
    .where('revoked_at', 'is', null)
    .execute()
}

function toUser(row: Selectable<Schema['users']>): User {
  return {
    id: row.id,
    email: row.email,
    passwordHash: row.password_hash,
    name: row.name,
    role: row.role,
    isActive: Boolean(row.is_active),
    failedLoginAttempts: row.failed_login_attempts,
    lockedUntil: toTimeOrNull(row.locked_until),
    lockedBy: row.locked_by,
    createdAt: toTime(row.created_at),
    updatedAt: toTime(row.updated_at),
  }
}
