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
  const { found, checked } = conditionsOf(engine.name, filter, now)
  const query = () =>
    engine.db
      .selectFrom('users')
      .where(users => users.and([users('email', '>', after), ...found]))
      .orderBy('email')
  const last =
    checked.length === 0
      ? undefined
      : await engine.retrying(() =>
          query()
            .select('email')
            .offset(CHECKED_PER_PAGE - 1)
            .limit(1)
            .executeTakeFirst(),
        )
  const rows = await engine.retrying(() =>
    query()
      .selectAll()
      .$if(last !== undefined, part => part.where('email', '<=', last?.email ?? ''))
      .where(users => users.and(checked))
      .limit(limit + 1)
      .execute(),
  )
  const users = rows.slice(0, limit).map(toUser)
  const next = rows.length > limit ? users.at(-1)?.email : last?.email
  return { users, next: next ?? null }
}

/** `found` is what an index finds together with the order by email; `checked` is the rest. */
function conditionsOf(engine: EngineName, { search, role, state }: UserFilter, now: Date) {
  const found: Condition[] = []
  const checked: Condition[] = []
  const moment = formatTime(now)
  // A lock of the throttle that ends later was written by a wrong clock; a reservation ignores its block too.
  const latest = formatTime(now, 2 * WINDOW_MS)
  switch (state) {
    case 'inactive':
      // As the index is declared, and not a parameter, so that the index can be used.
      found.push(engine === 'postgres' ? sql`is_active = false` : sql`is_active = 0`)
      break
    case 'locked':
      found.push(sql`locked_until is not null`)
      checked.push(
        sql`is_active and locked_until > ${moment} and locked_by is distinct from 'throttle'`,
      )
      break
    case 'waiting':
      found.push(sql`locked_until is not null`)
      checked.push(sql`is_active and locked_by = 'throttle'
        and locked_until > ${moment} and locked_until <= ${latest}`)
      break
    case 'active':
      checked.push(sql`is_active and (locked_until is null or locked_until <= ${moment}
        or locked_by = 'throttle' and locked_until > ${latest})`)
  }
  if (role !== undefined) {
    if (found.length === 0) found.push(sql`role = ${role}`)
    // Not a plain column: the index of roles would find most users, where the other one finds a few.
    else checked.push(sql`role || '' = ${role}`)
  }
  if (search !== undefined) checked.push(contains(engine, search))
  return { found, checked }
}

/** Only ASCII letters match in both cases: the two engines know different other letters. */
function contains(engine: EngineName, search: string): Condition {
  const text = search.replace(/[A-Z]+/g, letters => letters.toLowerCase())
  return engine === 'postgres'
    ? sql`(strpos(lower(email collate "C"), ${text}) > 0 or strpos(lower(name collate "C"), ${text}) > 0)`
    : sql`(instr(lower(email), ${text}) > 0 or instr(lower(name), ${text}) > 0)`
}
