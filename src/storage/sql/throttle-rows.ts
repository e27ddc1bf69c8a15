// Rows of the throttle: how both engines lock, store and clear them.
import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { ThrottleScope } from '../../domain/attempt.ts'
import type { AuditFacts } from '../../domain/audit.ts'
import { clearFailures, type ScopeRow } from '../../domain/throttle-rules.ts'
import { digestOf } from '../../system/identifiers.ts'
import { isAmong, isGiven, locking, rowsOf, textsOf } from './dialect.ts'
import type { EngineName } from './engine.ts'
import { prepare, run, type Steps, send } from './prepared.ts'
import { formatTime, parseTime, parseTimeOrNull, type Schema } from './schema.ts'

type StoredRow = Selectable<Schema['login_throttle']>

/** What changes of a row, and what does not. */
const STATE_COLUMNS = [
  ...(['failures', 'pending', 'lease_ends_at', 'window_ends_at'] as const),
  ...(['blocked_until', 'clears_at', 'expires_at'] as const),
]
const COLUMNS = [...(['key', 'scope', 'email_digest'] as const), ...STATE_COLUMNS]

export function toScopeRow(row: StoredRow): ScopeRow {
  return {
    key: row.key,
    name: row.scope,
    emailDigest: row.email_digest,
    failures: row.failures,
    pending: row.pending,
    leaseEndsAt: parseTime(row.lease_ends_at),
    windowEndsAt: parseTime(row.window_ends_at),
    blockedUntil: parseTimeOrNull(row.blocked_until),
    clearsAt: parseTimeOrNull(row.clears_at),
    expiresAt: parseTime(row.expires_at),
  }
}

function toStored(row: ScopeRow): StoredRow {
  return {
    key: row.key,
    scope: row.name,
    email_digest: row.emailDigest,
    failures: row.failures,
    pending: row.pending,
    lease_ends_at: row.leaseEndsAt,
    window_ends_at: row.windowEndsAt,
    blocked_until: row.blockedUntil,
    clears_at: row.clearsAt,
    expires_at: row.expiresAt,
  }
}

/** Reads the rows of these scopes, and locks them. */
export function* lockRows(scopes: ThrottleScope[]): Steps<ScopeRow[]> {
  const rows = yield* run(selectByKeys, { keys: JSON.stringify(keysOf(scopes)) })
  return rows.map(toScopeRow)
}

/**
 * Stores rows that were locked, and adds those of scopes that had none. These come first: an attempt that adds a row
 * waits for a parallel one that has changed it, but not for one that has only locked it, and fails at once.
 */
export function* storeRows(changed: ScopeRow[], locked: ScopeRow[]): Steps<void> {
  const isLocked = (row: ScopeRow) => locked.some(({ key }) => key === row.key)
  const added = changed.filter(row => !isLocked(row))
  if (added.length > 0) yield* send(insertNew, { rows: asJson(added) })
  yield* updateRows(changed.filter(isLocked))
}

export function* updateRows(locked: ScopeRow[]): Steps<void> {
  if (locked.length > 0) yield* send(updateLocked, { rows: asJson(locked) })
}

/** Returns what it cleared, for the audit; null if nothing was counted. */
export function* clearKeys(keys: string[], now: Date): Steps<AuditFacts | null> {
  const rows = yield* run(selectByKeys, { keys: JSON.stringify(keys) })
  return yield* clearRows(rows, now)
}

/** The same for the scopes of an email. */
export function* clearEmail(email: string, now: Date): Steps<AuditFacts | null> {
  const rows = yield* run(selectByEmail, { emailDigest: digestOf(email) })
  return yield* clearRows(rows, now)
}

function* clearRows(rows: StoredRow[], now: Date): Steps<AuditFacts | null> {
  const cleared = clearFailures(rows.map(toScopeRow), now)
  if (!cleared) return null
  const { changed, failures, blockedUntil } = cleared
  yield* updateRows(changed)
  return { failures, blockedUntil: blockedUntil && formatTime(blockedUntil) }
}

function asJson(rows: ScopeRow[]): string {
  return JSON.stringify(rows.map(toStored))
}

const selectByKeys = selecting<{ keys: string }>(({ keys }, engine) =>
  isAmong(engine, 'key', textsOf(engine, keys)),
)
const selectByEmail = selecting<{ emailDigest: string }>(
  ({ emailDigest }) => sql`email_digest = ${emailDigest}`,
)

function selecting<Values extends Record<string, unknown>>(
  conditionOf: (values: Values, engine: EngineName) => RawBuilder<unknown>,
) {
  return prepare<Values, StoredRow>(
    (values, engine) => sql`select ${sql.join(COLUMNS.map(column => sql.ref(column)))}
      from login_throttle where ${conditionOf(values, engine)}
      order by key ${locking(engine, 'update')}`,
  )
}

const updateLocked = prepare<{ rows: string }>(({ rows }, engine) => {
  const assignments = STATE_COLUMNS.map(
    column => sql`${sql.ref(column)} = given.${sql.ref(column)}`,
  )
  const keys = rowsOf(engine, 'login_throttle', ['key'], rows)
  return sql`update login_throttle set ${sql.join(assignments)}
    from (${rowsOf(engine, 'login_throttle', COLUMNS, rows)}) given
    where ${isGiven(engine, 'login_throttle', 'key', keys)}`
})

/** Fails if a parallel attempt has added one of the rows; PostgreSQL then repeats the transaction. */
const insertNew = prepare<{ rows: string }>(
  ({ rows }, engine) => sql`
    insert into login_throttle (${sql.join(COLUMNS.map(column => sql.ref(column)))})
    select * from (${rowsOf(engine, 'login_throttle', COLUMNS, rows)}) given order by key`,
)

export function keysOf(scopes: ThrottleScope[]): string[] {
  return scopes.map(scope => scope.key)
}
