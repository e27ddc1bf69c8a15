// What becomes of a reserved attempt in SQLite, within a transaction that is the only one to write.
import { sql, type Transaction } from 'kysely'
import { digestOf } from '../digest.ts'
import { rememberDevice } from './devices-sql.ts'
import type { Attempts } from './engine.ts'
import { prepare } from './prepared.ts'
import { type Schema, UNKNOWN_USER_ID } from './schema.ts'
import { insertSession } from './sessions-sql.ts'
import type { ThrottleScope } from './store.ts'
import {
  isNotLockedByAdministrator,
  keysOf,
  type Moments,
  momentsAt,
  ONE_FAILURE_MORE,
} from './throttle-rows.ts'
import { toText } from './values.ts'

export type Transact = <T>(operation: (trx: Transaction<Schema>) => Promise<T>) => Promise<T>

export function createSettling(transact: Transact): Omit<Attempts, 'reserveAttempt'> {
  return {
    async releaseAttempt(scopes) {
      await transact(trx => giveBack(trx, { keys: toJson(scopes) }))
    },

    settleFailure: (scopes, userId, now) => transact(trx => fail(trx, scopes, userId, now)),

    openSession: (verified, session, refreshToken, device, scopes, now) =>
      transact(async trx => {
        const [user] = await acceptUser(trx, {
          id: verified.id,
          passwordHash: verified.passwordHash,
          hashDigest: digestOf(verified.passwordHash),
          now: toText(now),
        })
        if (!user) {
          await fail(trx, scopes, verified.id, now)
          return false
        }
        await forgive(trx, { keys: toJson(scopes) })
        await insertSession(trx, session, refreshToken)
        if (device) await rememberDevice(trx, session.userId, device, session.userAgent, now)
        return true
      }),
  }
}

async function fail(
  trx: Transaction<Schema>,
  scopes: ThrottleScope[],
  userId: string | null,
  now: Date,
): Promise<number> {
  await countFailure(trx, { keys: toJson(scopes), ...momentsAt(now) })
  // The same write for nobody: a failure of an unknown e-mail must not be the cheaper one.
  if (userId === null) {
    await countNobodysFailure(trx, { id: UNKNOWN_USER_ID })
    return 0
  }
  const [user] = await countUsersFailure(trx, { id: userId })
  return user?.failed_login_attempts ?? 0
}

/** However many they are, it is one statement. */
export function toJson(scopes: ThrottleScope[]): string {
  return JSON.stringify(keysOf(scopes))
}

export function isOneOf(keys: string) {
  return sql<boolean>`key in (select value from json_each(${keys}))`
}

const ONE_PENDING_LESS = sql<number>`max(pending - 1, 0)`

const giveBack = prepare<{ keys: string }>((db, { keys }) =>
  db
    .updateTable('login_throttle')
    .set({ pending: ONE_PENDING_LESS })
    .where(isOneOf(keys))
    .compile(),
)

/** Turns a pending attempt into a failure, in a window that starts with the first one. */
const countFailure = prepare<Moments & { keys: string }>((db, at) =>
  db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when window_ends_at <= ${at.now} then 1 else failures + 1 end`,
      window_ends_at: sql`case when failures = 0 or window_ends_at <= ${at.now}
        then ${at.windowEnd} else window_ends_at end`,
      expires_at: at.expiry,
    })
    .where(isOneOf(at.keys))
    .compile(),
)

/** A success gives its places back and forgets the failures of its pair or device, nobody else's. */
const forgive = prepare<{ keys: string }>((db, { keys }) =>
  db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when scope in ('pair', 'device') then 0 else failures end`,
    })
    .where(isOneOf(keys))
    .compile(),
)

type UserHoles = { id: string; passwordHash: string; hashDigest: string; now: string }

/** Takes effect only if the user is still as verified. */
const acceptUser = prepare<UserHoles, { id: string }>((db, { id, passwordHash, hashDigest, now }) =>
  db
    .updateTable('users')
    .set({
      failed_login_attempts: 0,
      // A throttle's lock that is still running is the e-mail scope's, which a success spares.
      locked_until: sql`case when locked_until <= ${now} then null else locked_until end`,
      locked_by: sql`case when locked_until <= ${now} then null else locked_by end`,
    })
    .where('id', '=', id)
    // Another login may have made the hash anew meanwhile: it is still the same password.
    .where(user =>
      user.or([user('password_hash', '=', passwordHash), user('upgraded_from', '=', hashDigest)]),
    )
    .where(sql<boolean>`is_active`)
    .where(isNotLockedByAdministrator(now))
    .returning('id')
    .compile(),
)

const countUsersFailure = countingIn('users')
const countNobodysFailure = countingIn('unknown_user')

function countingIn(table: 'users' | 'unknown_user') {
  return prepare<{ id: string }, { failed_login_attempts: number }>((db, { id }) =>
    db
      .updateTable(table)
      .set({ failed_login_attempts: ONE_FAILURE_MORE })
      .where('id', '=', id)
      .returning('failed_login_attempts')
      .compile(),
  )
}
