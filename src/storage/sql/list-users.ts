// The list of users, a page at a time. An index finds the users of a role or of a rare state; other conditions
// are checked on a bounded number of users per page, so that no statement takes long.
import { type RawBuilder, sql } from 'kysely'
import { WINDOW_MS } from '../../domain/throttle.ts'
import type { ListedUsers, UserFilter, UserPage } from '../../domain/user.ts'
import type { Engine, EngineName } from './engine.ts'
import { formatTime } from './schema.ts'
import { toUser } from './user-rows.ts'

/** Most users that the conditions without an index are checked on. */
const CHECKED_PER_PAGE = 10_000

type Condition = RawBuilder<boolean>

export async function listUsers(
  engine: Engine,
  filter: UserFilter,
  { after, limit }: UserPage,
  now: Date,
): Promise<ListedUsers> {
  const { index, checked } = conditionsOf(engine.name, filter, now)
  const query = (last?: string) =>
    engine.db
      .selectFrom('users')
      .where(sql<boolean>`${index.from(after)} and ${index.to(last)}`)
      .orderBy(index.order)
  const lastChecked = query()
    .select('email')
    .offset(CHECKED_PER_PAGE - 1)
    .limit(1)
  const last =
    checked.length > 0 ? await engine.retrying(() => lastChecked.executeTakeFirst()) : undefined
  const rows = await engine.retrying(() =>
    query(last?.email)
      .selectAll()
      .where(users => users.and(checked))
      .limit(limit + 1)
      .execute(),
  )
  const users = rows.slice(0, limit).map(toUser)
  const next = rows.length > limit ? users.at(-1)?.email : last?.email
  return { users, next: next ?? null }
}

/** What an index finds, in its order, after an email and up to another one or the end. */
type IndexRange = {
  from: (after: string) => Condition
  to: (last: string | undefined) => Condition
  order: RawBuilder<unknown>
}

function byEmail(found: Condition): IndexRange {
  return {
    from: after => sql`email > ${after} and ${found}`,
    to: last => (last === undefined ? sql`true` : sql`email <= ${last}`),
    order: sql`email`,
  }
}

/** A comparison of pairs: with `role = …`, PostgreSQL would take the index of all emails if most users had this role. */
function byRole(role: string): IndexRange {
  return {
    from: after => sql`(role, email) > (${role}, ${after})`,
    to: last =>
      last === undefined ? sql`role <= ${role}` : sql`(role, email) <= (${role}, ${last})`,
    order: sql`role, email`,
  }
}

/** The index that finds the users, and the conditions that are checked on what it finds. */
function conditionsOf(engine: EngineName, { search, role, state }: UserFilter, now: Date) {
  const checked: Condition[] = []
  let index = role === undefined ? byEmail(sql`true`) : byRole(role)
  const moment = formatTime(now)
  // A lock of the throttle that ends later was written by a wrong clock; a reservation ignores its block too.
  const latest = formatTime(now, 2 * WINDOW_MS)
  switch (state) {
    case 'inactive':
      // Written as the index is declared, without a parameter, so that the index can be used.
      index = byEmail(engine === 'postgres' ? sql`is_active = false` : sql`is_active = 0`)
      break
    case 'locked':
      index = byEmail(sql`locked_until is not null`)
      checked.push(
        sql`is_active and locked_until > ${moment} and locked_by is distinct from 'throttle'`,
      )
      break
    case 'waiting':
      index = byEmail(sql`locked_until is not null`)
      checked.push(sql`is_active and locked_by = 'throttle'
        and locked_until > ${moment} and locked_until <= ${latest}`)
      break
    case 'active':
      checked.push(sql`is_active and (locked_until is null or locked_until <= ${moment}
        or locked_by = 'throttle' and locked_until > ${latest})`)
  }
  const hasOwnIndex = state !== undefined && state !== 'active'
  // An expression instead of the column: the index of roles may find most users, where that of the state finds a few.
  if (role !== undefined && hasOwnIndex) checked.push(sql`role || '' = ${role}`)
  if (search !== undefined) checked.push(contains(engine, search))
  return { index, checked }
}

/**
 * Only ASCII letters match in both cases: the two engines know different other letters. Both texts are searched at
 * once, which takes half of the time; neither has a line break.
 */
function contains(engine: EngineName, search: string): Condition {
  const text = search.replace(/[A-Z]+/g, letters => letters.toLowerCase())
  if (text.includes('\n')) return sql`false`
  return engine === 'postgres'
    ? sql`strpos(lower((email || chr(10) || name) collate "C"), ${text}) > 0`
    : sql`instr(lower(email || char(10) || name), ${text}) > 0`
}
