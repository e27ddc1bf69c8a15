// Second factors in the transaction of a login: uses up the proof that came with it, and changes them.
import { sql } from 'kysely'
import {
  type FactorsChange,
  type NewFactor,
  USED_AHEAD_MAX_MS,
  type UsedProof,
} from '../../domain/second-factor.ts'
import { locking, rowsOf } from './dialect.ts'
import { prepare, run, type Steps, send } from './prepared.ts'
import { formatTime, parseTime } from './schema.ts'
import { isStillVerified, type VerifiedUser } from './user-rows.ts'

/**
 * Locks the user, and returns whether this transaction has used the proof up. The second statement sees what parallel logins
 * of the user have used, because it begins after the lock. It uses nothing up unless the session can be opened.
 */
export function* useProof(
  { used, guessesBelow }: { used: UsedProof; guessesBelow: number },
  verified: VerifiedUser,
): Steps<boolean> {
  yield* send(lockUserById, verified)
  const values = { ...verified, guessesBelow }
  const rows =
    used.kind === 'recovery-code'
      ? yield* run(useRecoveryCode, { ...values, ...used })
      : yield* run(useFactor, {
          ...{ ...values, ...used },
          usedTo: formatTime(used.usedTo),
          usedAheadMax: formatTime(parseTime(verified.now), USED_AHEAD_MAX_MS[used.kind]),
        })
  return rows.length > 0
}

export const lockUserById = prepare<{ userId: string }>(
  ({ userId }, engine) =>
    sql`select id from users where id = ${userId} ${locking(engine, 'no key update')}`,
)

type Use = VerifiedUser & { guessesBelow: number }

/** The settled guesses count, not those that the login has read: of parallel guesses no more than allowed are of use. */
const mayBeUsed = (at: Use) =>
  sql`exists (select 1 from users where ${isStillVerified(at)}
    and failed_second_steps < ${at.guessesBelow})`

const useFactor = prepare<
  Use & { id: string; usedTo: string; usedAheadMax: string; secret: string },
  { id: string }
>(
  at => sql`update second_factors
    set used_to = ${at.usedTo}, last_used_at = ${at.now}, secret = ${at.secret}
    where id = ${at.id} and user_id = ${at.userId}
      and (used_to is null or used_to < ${at.usedTo} or used_to > ${at.usedAheadMax})
      and ${mayBeUsed(at)}
    returning id`,
)

const useRecoveryCode = prepare<Use & { digest: string }, { digest: string }>(
  at => sql`update recovery_codes set used_at = ${at.now}
    where user_id = ${at.userId} and digest = ${at.digest} and used_at is null and ${mayBeUsed(at)}
    returning digest`,
)

/** Changes the factors of a user that the transaction has locked. */
export function* changeFactors(userId: string, now: string, change: FactorsChange): Steps<void> {
  const user = { userId, now }
  yield* send(noteChange, user)
  if (change.kind === 'remove') {
    yield* send(removeFactor, { ...user, id: change.id })
    // Without a factor they prove nothing.
    if (change.isLast) yield* send(removeCodes, user)
    return
  }
  if (change.kind === 'set') {
    const values = { ...user, ...change.factor, usedTo: formatTime(change.factor.usedTo) }
    if (change.factor.kind === 'totp') yield* send(removeTotp, user)
    yield* send(insertFactor, values)
  }
  if (!change.recoveryDigests) return
  yield* send(removeCodes, user)
  const codes = change.recoveryDigests.map(digest => ({ user_id: userId, digest }))
  yield* send(insertCodes, { rows: JSON.stringify(codes) })
}

type OfUser = { userId: string; now: string }

const noteChange = prepare<OfUser>(
  ({ userId, now }) => sql`update users set factors_version = factors_version + 1,
    updated_at = ${now} where id = ${userId}`,
)

type Inserted = OfUser & Omit<NewFactor, 'usedTo'> & { usedTo: string }

const removeTotp = prepare<OfUser>(
  ({ userId }) => sql`delete from second_factors where user_id = ${userId} and kind = 'totp'`,
)

const insertFactor = prepare<Inserted>(
  at => sql`insert into second_factors
      (id, user_id, kind, secret, used_to, created_at, name, credential_id, rp_id)
    values (${at.id}, ${at.userId}, ${at.kind}, ${at.secret}, ${at.usedTo}, ${at.now}, ${at.name},
      ${at.credentialId}, ${at.rpId})`,
)

const removeFactor = prepare<OfUser & { id: string }>(
  ({ id, userId }) => sql`delete from second_factors where id = ${id} and user_id = ${userId}`,
)

const removeCodes = prepare<OfUser>(
  ({ userId }) => sql`delete from recovery_codes where user_id = ${userId}`,
)

const insertCodes = prepare<{ rows: string }>(
  ({ rows }, engine) => sql`insert into recovery_codes (user_id, digest)
    ${rowsOf(engine, 'recovery_codes', ['user_id', 'digest'], rows)}`,
)
