// The list of users, a page at a time. Conditions are checked on a bounded number of users per page, so that no
// statement takes long.
import { type RawBuilder, sql } from 'kysely'
import { WINDOW_MS } from '../../domain/throttle.ts'
import type { ListedUser, ListedUsers, UserFilter, UserPage } from '../../domain/user.ts'
import type { Engine, EngineName } from './engine.ts'
import { formatTime, parseTimeOrNull } from './schema.ts'
import { toUser } from './user-rows.ts'

/** Most users that the conditions are checked on. */
const CHECKED_PER_PAGE = 10_000

/** The kinds of one user's factors, by one lookup. */
const SECOND_FACTOR = sql<ListedUser['secondFactor']>`(
  select case when min(kind) <> max(kind) then 'totp+passkey' else coalesce(min(kind), 'none') end
  from second_factors where user_id = users.id)`
/** One lookup in an index. PostgreSQL may turn `not exists` into a join, which reads the factors of all users. */
const HAS_NO_FACTOR = sql<boolean>`(
  select 1 from second_factors where user_id = users.id limit 1) is null`

export async function listUsers(
  engine: Engine,
  filter: UserFilter,
  { after, limit }: UserPage,
  now: Date,
): Promise<ListedUsers> {
  const conditions = conditionsOf(engine.name, filter, now)
  const isRare = filter.state === 'locked' || filter.state === 'waiting'
  const query = engine.db
    .selectFrom('users')
    .where('email', '>', after)
    // As the index is declared that finds the few users with a lock.
    .where(isRare ? sql<boolean>`locked_until is not null` : sql<boolean>`true`)
    .orderBy('email')
  const lastChecked =
    conditions.length > 0
      ? await engine.retrying(() =>
          query
            .select('email')
            .offset(CHECKED_PER_PAGE - 1)
            .limit(1)
            .executeTakeFirst(),
        )
      : undefined
  const rows = await engine.retrying(() =>
    query
      .selectAll()
      .select(SECOND_FACTOR.as('second_factor'))
      .$if(lastChecked !== undefined, page => page.where('email', '<=', lastChecked?.email ?? ''))
      .where(users => users.and(conditions))
      .limit(limit + 1)
      .execute(),
  )
  const users = rows.slice(0, limit).map(row => ({
    ...toUser(row),
    lastLoginAt: parseTimeOrNull(row.last_login_at),
    secondFactor: row.second_factor,
  }))
  const next = rows.length > limit ? users.at(-1)?.email : lastChecked?.email
  return { users, next: next ?? null }
}

function conditionsOf(
  engine: EngineName,
  { search, role, state, secondFactor, dormantSince }: UserFilter,
  now: Date,
) {
  const conditions: RawBuilder<boolean>[] = []
  if (role !== undefined) conditions.push(sql`role = ${role}`)
  if (search !== undefined) conditions.push(contains(engine, search))
  const moment = formatTime(now)
  // A lock of the throttle that ends later was written by a wrong clock; a reservation ignores its block too.
  const latest = formatTime(now, 2 * WINDOW_MS)
  const isLocked = sql`coalesce(locked_until > ${moment} and locked_by is distinct from 'throttle', false)`
  const isWaiting = sql`coalesce(locked_until > ${moment} and locked_until <= ${latest} and locked_by = 'throttle', false)`
  if (state === 'inactive') conditions.push(sql`not is_active`)
  if (state === 'locked') conditions.push(sql`is_active and ${isLocked}`)
  if (state === 'waiting') conditions.push(sql`is_active and ${isWaiting}`)
  if (state === 'active') conditions.push(sql`is_active and not ${isLocked} and not ${isWaiting}`)
  if (dormantSince !== undefined) {
    conditions.push(sql`coalesce(last_login_at, created_at) < ${formatTime(dormantSince)}`)
  }
  // The last one, because it costs the most.
  if (secondFactor === 'none') conditions.push(HAS_NO_FACTOR)
  if (secondFactor === 'any') conditions.push(sql`not ${HAS_NO_FACTOR}`)
  return conditions
}

/**
 * Only ASCII letters match in both cases: the two engines know different other letters. Both texts are searched at
 * once, which takes half of the time; neither has a line break.
 */
function contains(engine: EngineName, search: string): RawBuilder<boolean> {
  const text = search.replace(/[A-Z]+/g, letters => letters.toLowerCase())
  if (text.includes('\n')) return sql`false`
  return engine === 'postgres'
    ? sql`strpos(lower((email || chr(10) || name) collate "C"), ${text}) > 0`
    : sql`instr(lower(email || char(10) || name), ${text}) > 0`
}
