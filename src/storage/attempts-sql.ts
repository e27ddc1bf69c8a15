// An attempt's way through the tables: reserve, then settle.
import { sql, type Transaction } from 'kysely'
import { digestOf } from '../digest.ts'
import { rememberDevice } from './devices-sql.ts'
import type { Engine } from './engine.ts'
import { prepare } from './prepared.ts'
import { type Schema, UNKNOWN_USER_ID } from './schema.ts'
import { insertSession } from './sessions-sql.ts'
import type { Store, ThrottleScope } from './store.ts'
import {
  countFailure,
  forgiveFailures,
  giveBack,
  isNotLockedByAdministrator,
} from './throttle-rows.ts'
import { transact } from './transact.ts'
import { toText } from './values.ts'

type Attempts = Pick<Store, 'reserveAttempt' | 'releaseAttempt' | 'settleFailure' | 'openSession'>

export function createAttempts(engine: Engine): Attempts {
  return {
    reserveAttempt: engine.reserveAttempt,

    async releaseAttempt(scopes) {
      await transact(engine, scopes, trx => giveBack(trx, scopes))
    },

    settleFailure(scopes, userId, now) {
      return transact(engine, scopes, trx => settleFailureIn(trx, scopes, userId, now))
    },

    openSession(verified, session, refreshToken, device, scopes, now) {
      return transact(engine, scopes, async trx => {
        const [user] = await acceptUser(trx, {
          id: verified.id,
          passwordHash: verified.passwordHash,
          hashDigest: digestOf(verified.passwordHash),
          now: toText(now),
        })
        if (!user) {
          await settleFailureIn(trx, scopes, verified.id, now)
          return false
        }
        await forgiveFailures(trx, scopes)
        await insertSession(trx, session, refreshToken)
        if (device) await rememberDevice(trx, session.userId, device, session.userAgent, now)
        return true
      })
    },
  }
}

async function settleFailureIn(
  trx: Transaction<Schema>,
  scopes: ThrottleScope[],
  userId: string | null,
  now: Date,
): Promise<number> {
  await countFailure(trx, scopes, now)
  // The same write for nobody: a failure of an unknown e-mail must not be the cheaper one.
  if (userId === null) {
    await countNobodysFailure(trx, { id: UNKNOWN_USER_ID })
    return 0
  }
  const [user] = await countUsersFailure(trx, { id: userId })
  return user?.failed_login_attempts ?? 0
}

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
      // Never beyond what the column holds: the row of nobody is never set back.
      .set({ failed_login_attempts: sql<number>`(failed_login_attempts + 1) % 1000000000` })
      .where('id', '=', id)
      .returning('failed_login_attempts')
      .compile(),
  )
}
