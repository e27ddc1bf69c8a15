// Takes users from a file, a batch in one transaction.
import { type Kysely, type Selectable, sql } from 'kysely'
import { canonicalHash } from '../../bcrypt/hash-text.ts'
import type { Change, NewAuditEvent } from '../../domain/audit.ts'
import type {
  ImportedUser,
  ImportOptions,
  ImportOutcome,
  ImportStore,
} from '../../domain/import.ts'
import { DEFAULT_ROLE, isLockedByAdministrator, type User } from '../../domain/user.ts'
import { digestOf } from '../../system/identifiers.ts'
import { changedFacts, detailsOf, toAuditRows } from './audit.ts'
import { isAmong, isGiven, locking, rowsAsJson } from './dialect.ts'
import { endAllSessions } from './end-all-sessions.ts'
import { type Engine, transact } from './engine.ts'
import { formatTime, type Schema } from './schema.ts'
import { type ColumnOf, toUser } from './user-rows.ts'

type UserRow = Selectable<Schema['users']>
type Changed = NonNullable<ReturnType<typeof updateOf>>

export function createImport(engine: Engine): ImportStore {
  return {
    async run(users, options, change) {
      const outcomes = new Map<ImportedUser, ImportOutcome>()
      // In one order, so that two imports do not wait for each other's rows.
      const inOrder = users.toSorted((a, b) => (a.email < b.email ? -1 : 1))
      // Repeated if an existing user prevented an insertion and was deleted before it could be read.
      for (let left = inOrder; left.length > 0; left = left.filter(user => !outcomes.has(user))) {
        const runIn = (db: Kysely<Schema>) => importBatch(engine, db, left, options, change)
        // A dry run needs no transaction, and so does not wait for a lock.
        const decided = await (options.isDryRun
          ? engine.retrying(() => runIn(engine.db))
          : transact(engine, runIn))
        for (const [user, outcome] of decided) outcomes.set(user, outcome)
      }
      return users.map(user => outcomes.get(user) ?? 'unchanged')
    },
  }
}

async function importBatch(
  engine: Engine,
  db: Kysely<Schema>,
  users: ImportedUser[],
  { mayUpdate, isDryRun }: ImportOptions,
  change: Change,
) {
  const decided = new Map<ImportedUser, ImportOutcome>()
  const isAdded = isDryRun ? [] : await engine.insertRows(db, 'users', toRows(users, change))
  const added = users.filter((_, index) => isAdded[index])
  for (const user of added) decided.set(user, 'added')

  const others = users.filter(user => !decided.has(user))
  const emails = others.map(({ email }) => ({ email }))
  const byEmail = await findUsers(engine, db, 'email', emails, mayUpdate && !isDryRun)
  const givenIds = others.filter(({ isIdGiven }) => isIdGiven).map(({ id }) => ({ id }))
  const byId = await findUsers(engine, db, 'id', givenIds, false)
  const changed: Changed[] = []
  for (const user of others) {
    const found = byEmail.get(user.email)
    const owner = user.isIdGiven ? byId.get(user.id) : found
    if (owner?.id !== found?.id) decided.set(user, 'other-id')
    else if (found) {
      const update = mayUpdate ? updateOf(found, user, change) : null
      decided.set(user, update ? 'updated' : 'unchanged')
      if (update) changed.push(update)
    } else if (isDryRun) decided.set(user, 'added')
  }
  if (isDryRun) return decided

  if (changed.length > 0) await updateUsers(engine, db, changed)
  // `changeUser` in user.ts does the same for one user.
  const isOneOf = (among: Changed[]) => {
    const ids = among.map(({ update }) => update)
    return isAmong(engine.name, 'user_id', rowsAsJson(engine.name, 'users', ['id'], ids))
  }
  const ending = changed.filter(({ endsSessions }) => endsSessions)
  if (ending.length > 0) await endAllSessions(engine, db, isOneOf(ending), change.at)
  const withNewHash = changed.filter(({ isNewHash }) => isNewHash)
  if (withNewHash.length > 0) {
    await sql`delete from devices where ${isOneOf(withNewHash)}`.execute(db)
  }
  const events = [...added.map(addedEvent), ...changed.flatMap(updatedEvents)]
  if (events.length > 0) await engine.insertRows(db, 'audit_events', toAuditRows(change, events))
  return decided
}

/** New users have the column's default. */
type CountedField =
  | 'failedLoginAttempts'
  | 'factorsVersion'
  | 'failedSecondSteps'
  | 'codeOffsetSeconds'
type InsertedRow = Record<ColumnOf<Exclude<keyof User, CountedField>>, unknown>

/** A value that is undefined is stored as null, and PostgreSQL need not read it. */
function toRows(users: ImportedUser[], change: Change): InsertedRow[] {
  const now = formatTime(change.at)
  return users.map(user => ({
    id: user.id,
    email: user.email,
    password_hash: user.passwordHash,
    name: user.name,
    role: user.role ?? DEFAULT_ROLE,
    is_active: user.isActive === false ? 0 : 1,
    locked_until: user.lockedUntil ? formatTime(user.lockedUntil) : undefined,
    locked_by: user.lockedUntil ? 'administrator' : undefined,
    temporary_until: user.temporaryUntil ? formatTime(user.temporaryUntil) : undefined,
    created_at: user.createdAt ? formatTime(user.createdAt) : now,
    updated_at: now,
  }))
}

async function findUsers(
  engine: Engine,
  db: Kysely<Schema>,
  column: 'email' | 'id',
  values: Record<string, string>[],
  isLocking: boolean,
): Promise<Map<string, UserRow>> {
  if (values.length === 0) return new Map()
  const given = rowsAsJson(engine.name, 'users', [column], values)
  const lock = isLocking ? locking(engine.name, 'no key update') : sql``
  const { rows } = await sql<UserRow>`select * from users
    where ${isAmong(engine.name, column, given)} order by email ${lock}`.execute(db)
  return new Map(rows.map(row => [row[column], row]))
}

type KeptField = 'email' | 'createdAt' | Exclude<CountedField, 'failedSecondSteps'>

/** Null if the user is already as the file says. */
function updateOf(found: UserRow, user: ImportedUser, change: Change) {
  const stored = toUser(found)
  const hasLock = isLockedByAdministrator(stored, change.at)
  const isLockChanged =
    user.lockedUntil !== undefined &&
    (hasLock ? stored.lockedUntil?.getTime() : undefined) !== user.lockedUntil?.getTime()
  const isHashChanged =
    canonicalHash(stored.passwordHash) !== canonicalHash(user.passwordHash) &&
    found.upgraded_from !== digestOf(user.passwordHash)
  const isActive = user.isActive ?? stored.isActive
  const lock = isLockChanged ? (user.lockedUntil ?? null) : stored.lockedUntil
  const endsSessions =
    isHashChanged || (isLockChanged && lock !== null) || (stored.isActive && !isActive)
  const { temporaryUntil } = isHashChanged ? user : stored
  const update = {
    id: stored.id,
    name: user.isNameMade ? stored.name : user.name,
    role: user.role ?? stored.role,
    is_active: isActive ? 1 : 0,
    locked_until: lock && formatTime(lock),
    locked_by: isLockChanged ? (lock ? ('administrator' as const) : null) : stored.lockedBy,
    password_hash: isHashChanged ? user.passwordHash : stored.passwordHash,
    upgraded_from: isHashChanged ? null : found.upgraded_from,
    temporary_until: temporaryUntil ? formatTime(temporaryUntil) : null,
    failed_second_steps: isHashChanged ? 0 : stored.failedSecondSteps,
    updated_at: formatTime(change.at),
  } satisfies Record<ColumnOf<Exclude<keyof User, KeptField>> | 'upgraded_from', unknown>
  const facts = changedFacts(stored, toUser({ ...found, ...update }))
  if (!facts && !isHashChanged) return null
  return { email: stored.email, update, facts, isNewHash: isHashChanged, endsSessions, user }
}

/** The columns of an update are the same for all users. */
async function updateUsers(engine: Engine, db: Kysely<Schema>, changed: Changed[]): Promise<void> {
  const rows = changed.map(({ update }) => update)
  const columns = Object.keys(rows[0] ?? {})
  const assignments = columns
    .filter(column => column !== 'id')
    .map(column => sql`${sql.ref(column)} = given.${sql.ref(column)}`)
  const ids = rowsAsJson(engine.name, 'users', ['id'], rows)
  await sql`update users set ${sql.join(assignments)}
    from (${rowsAsJson(engine.name, 'users', columns, rows)}) given
    where ${isGiven(engine.name, 'users', 'id', ids)}`.execute(db)
}

function addedEvent(user: ImportedUser): NewAuditEvent {
  const { id, email, name, role, isActive, lockedUntil, temporaryUntil, allowWeak } = user
  const after = {
    ...detailsOf({ name, role: role ?? DEFAULT_ROLE }),
    ...(isActive === false && { isActive }),
    ...(lockedUntil && { lockedUntil: formatTime(lockedUntil) }),
    ...(allowWeak && { allowWeak }),
    ...(temporaryUntil && { temporaryUntil: formatTime(temporaryUntil) }),
  }
  return { action: 'user.imported', target: email, targetId: id, after }
}

function updatedEvents({ email, update, facts, isNewHash, user }: Changed): NewAuditEvent[] {
  const event = { target: email, targetId: update.id }
  const after = user.allowWeak ? { allowWeak: true } : null
  return [
    ...(facts ? [{ ...event, action: 'user.changed' as const, ...facts }] : []),
    ...(isNewHash ? [{ ...event, action: 'password.set' as const, after }] : []),
  ]
}
