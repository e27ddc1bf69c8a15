// Login attempts on both engines. Each operation is one transaction: it locks the rows of the throttle, lets the rules
// decide (`domain/throttle-rules.ts`) and stores what they changed. docs/throttle.md has a table.
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type {
  AttemptStore,
  EndedSession,
  NotedLogin,
  Opening,
  Reservation,
  ThrottleScope,
} from '../../domain/attempt.ts'
import { type FailedStep, NO_GUESS } from '../../domain/second-factor.ts'
import { WINDOW_MS } from '../../domain/throttle.ts'
import * as rules from '../../domain/throttle-rules.ts'
import { isLockedByAdministrator, type User } from '../../domain/user.ts'
import { digestOf } from '../../system/identifiers.ts'
import { locking } from './dialect.ts'
import type { Engine } from './engine.ts'
import { useProof } from './login-factors.ts'
import { completeSession, insertSession, openingValues } from './open-session.ts'
import { prepare, type Steps, send } from './prepared.ts'
import { DUMMY_IDS, formatTime } from './schema.ts'
import { lockRows, storeRows, updateRows } from './throttle-rows.ts'
import { type FoundUser, noteLoginOf, selectUserOrDummy, toFoundUser } from './user-rows.ts'

export function createAttempts({ inTransaction }: Engine): AttemptStore {
  return {
    async reserve(scopes, email, now) {
      for (let locksUser = false; ; locksUser = true) {
        const reservation = await inTransaction(() => reserve(locksUser, scopes, email, now))
        if (reservation) return reservation
      }
    },
    release: scopes => inTransaction(() => settle(scopes, rules.release)),
    // If a failover loses it, the reservation, which the standby has, counts as a failure when its lease ends.
    fail: (scopes, userId, now, step = NO_GUESS) =>
      inTransaction(() => fail(scopes, userId, now, step), 'locally'),
    pass: (scopes, login) => inTransaction(() => pass(scopes, login)),
    succeed: (opening, scopes, now) => inTransaction(() => succeed(opening, scopes, now)),
  }
}

/** Null if the attempt would block the email without `locksUser`: a user is locked before the scopes. */
function* reserve(
  locksUser: boolean,
  scopes: ThrottleScope[],
  email: string,
  now: Date,
): Steps<Reservation | null> {
  const dummyId = dummyIdOf(scopes)
  const found = yield* send(locksUser ? lockUser : findUser, { email, dummyId })
  const rows = yield* lockRows(scopes)
  const user = toFoundUser(found.rows[0])
  const verdict = rules.reserve(scopes, rows, now)
  if (verdict.kind === 'busy') return { ...verdict, user }
  if (verdict.kind === 'blocked' && verdict.blocksEmail && !locksUser) return null
  yield* storeRows(verdict.changed, rows)
  if (verdict.kind === 'admitted') return { kind: 'admitted', user }
  const { scope, blockedUntil, blocksEmail } = verdict
  const lockedUserId = blocksEmail ? yield* lockByThrottle(user, dummyId, now) : null
  return { kind: 'blocked', scope, blockedUntil, lockedUserId }
}

/** Returns the id of the user, if there is one and no administrator has locked it; otherwise a dummy row is written. */
function* lockByThrottle(user: User | null, dummyId: string, now: Date): Steps<string | null> {
  const lockedId = user && !isLockedByAdministrator(user, now) ? user.id : null
  yield* send(lockedId === null ? lockDummy : lockKnown, {
    id: lockedId ?? dummyId,
    now: formatTime(now),
    until: formatTime(now, WINDOW_MS),
  })
  return lockedId
}

function* settle(
  scopes: ThrottleScope[],
  change: (row: rules.ScopeRow) => rules.ScopeRow,
): Steps<void> {
  const rows = yield* lockRows(scopes)
  yield* updateRows(rows.map(change))
}

/** Writes a dummy row for an unknown email, so that both failures cost the same. */
function* fail(
  scopes: ThrottleScope[],
  userId: string | null,
  now: Date,
  { guessesBelow, codeOffsetSeconds }: FailedStep,
): Steps<{ failures: number; guesses: number }> {
  const isKnown = userId !== null
  const id = isKnown ? userId : dummyIdOf(scopes)
  const values = { id, guessesBelow, codeOffsetSeconds }
  const counted = yield* send(isKnown ? countUserFailure : countDummyFailure, values)
  yield* settle(scopes, row => rules.fail(row, now))
  const [row] = isKnown ? counted.rows : []
  return { failures: row?.failed_login_attempts ?? 0, guesses: row?.failed_second_steps ?? 0 }
}

function* pass(scopes: ThrottleScope[], login?: NotedLogin): Steps<void> {
  // The user is told of guesses by a session, and there is none.
  if (login) yield* send(noteLoginOf, { ...login, now: formatTime(login.at), forgivesBelow: 0 })
  yield* settle(scopes, rules.pass)
}

function* succeed(
  opening: Opening,
  scopes: ThrottleScope[],
  now: Date,
): Steps<EndedSession[] | null> {
  const values = openingValues(opening, now)
  if (opening.proof && !(yield* useProof(opening.proof, values))) {
    // A parallel attempt was faster. Releasing this one would make repeated proofs free.
    yield* fail(scopes, opening.user.id, now, NO_GUESS)
    return null
  }
  const opened = yield* send(insertSession, values)
  const rows = yield* lockRows(scopes)
  const isOpened = opened.rows.length > 0
  yield* updateRows(rows.map(isOpened ? rules.pass : rules.release))
  return isOpened ? yield* completeSession(opening, values) : null
}

/** Secret: a caller that knew it could choose emails that share a row, and make attempts wait for it. */
const ROW_SALT = randomBytes(16).toString('hex')

/**
 * The row of `unknown_user` that is read and written if the email has no user. With a single row, parallel
 * attempts at unknown emails would wait for each other, and attempts at known ones would not.
 */
function dummyIdOf([scope]: ThrottleScope[]): string {
  const byte = digestOf(ROW_SALT + scope?.emailDigest).slice(0, 2)
  return DUMMY_IDS[Number.parseInt(byte, 16)] ?? ''
}

const findUser = prepare<{ email: string; dummyId: string }, FoundUser>(({ email, dummyId }) =>
  selectUserOrDummy(email, dummyId),
)

/** Locks the dummy row too, so that a known email costs the same. */
const lockUser = prepare<{ email: string; dummyId: string }, FoundUser>(
  ({ email, dummyId }, engine) =>
    selectUserOrDummy(email, dummyId, locking(engine, 'no key update')),
)

const lockKnown = lockingIn('users')
const lockDummy = lockingIn('unknown_user')

function lockingIn(table: 'users' | 'unknown_user') {
  return prepare<{ id: string; now: string; until: string }>(
    ({ id, now, until }) => sql`update ${sql.table(table)}
      set locked_until = ${until}, locked_by = 'throttle', updated_at = ${now} where id = ${id}`,
  )
}

const countUserFailure = countingIn('users')
const countDummyFailure = countingIn('unknown_user')

/** Counts a failure of a user or a dummy row. Wraps around before the columns overflow: dummy rows are never reset. */
function countingIn(table: 'users' | 'unknown_user') {
  return prepare<
    FailedStep & { id: string },
    { failed_login_attempts: number; failed_second_steps: number }
  >(
    ({ id, guessesBelow, codeOffsetSeconds }) => sql`update ${sql.table(table)} set
        failed_login_attempts = (failed_login_attempts + 1) % 1000000000,
        failures_since_login = (failures_since_login + 1) % 1000000000,
        failed_second_steps = failed_second_steps
          + case when failed_second_steps < cast(${guessesBelow} as integer) then 1 else 0 end,
        code_offset_seconds = coalesce(cast(${codeOffsetSeconds} as integer), code_offset_seconds)
      where id = ${id} returning failed_login_attempts, failed_second_steps`,
  )
}
