// The throttle, as administrators read and clear it.
import { type Selectable, sql } from 'kysely'
import type { ScopeName } from '../../domain/attempt.ts'
import type { AuditFacts } from '../../domain/audit.ts'
import {
  type Floor,
  type ScopeState,
  type ThrottleLimits,
  type ThrottleStore,
  WINDOW_MS,
} from '../../domain/throttle.ts'
import { writeAudit } from './audit.ts'
import { type Engine, transact } from './engine.ts'
import { formatTime, type Schema } from './schema.ts'
import { storedRange } from './stored-ranges.ts'
import { clearFailures, isOfEmail, keysOf } from './throttle-rows.ts'
import { STATE_COLUMNS, type StateRow, stateOf, statesOf } from './throttle-state.ts'

type ScopeRow = StateRow & Pick<Selectable<Schema['login_throttle']>, 'scope' | 'email_digest'>

export function createThrottleStore(engine: Engine): ThrottleStore {
  const selected = () => engine.db.selectFrom('login_throttle').select(STATE_COLUMNS)
  const selectedWithScope = () => selected().select(['scope', 'email_digest'])

  return {
    async read(scopes, now) {
      if (scopes.length === 0) return []
      const rows = await engine.retrying(() =>
        selected().where('key', 'in', keysOf(scopes)).execute(),
      )
      return statesOf(scopes, rows, now)
    },

    async readOfEmail(emailDigest, limits, now) {
      const rows = await engine.retrying(() =>
        selectedWithScope().where('email_digest', '=', emailDigest).execute(),
      )
      return rows.map(row => toState(row, limits, now))
    },

    async list(from, limits, now, above) {
      const range = storedRange(engine, 'login_throttle', from)
      const rows = await engine.retrying(() =>
        selectedWithScope()
          .where(range.contains)
          .where(({ or }) =>
            or([
              mayMatter('email', limits, above.emails, now),
              mayMatter('client', limits, above.clients, now),
              mayMatter('network', limits, above.clients, now),
            ]),
          )
          .execute(),
      )
      const states = rows.map(row => toState(row, limits, now))
      const scopes = states.filter(({ failures, dailyFailures }) => failures + dailyFailures > 0)
      return { scopes, next: await range.next() }
    },

    clear: (keys, client, change) =>
      transact(engine, async trx => {
        const isOfClient = sql<boolean>`key in (${sql.join(keys)})`
        const before = await clearFailures(engine, trx, isOfClient, change.at)
        if (!before) return false
        await writeAudit(trx, change, { ...cleared(client, before), targetId: null })
        return true
      }),

    clearOfEmail: (email, change) =>
      transact(engine, async trx => {
        const before = await clearFailures(engine, trx, isOfEmail(email), change.at)
        const unlocked = await trx
          .updateTable('users')
          .set({ locked_until: null, locked_by: null, updated_at: formatTime(change.at) })
          .where('email', '=', email)
          .where('locked_by', '=', 'throttle')
          .returning('id')
          .executeTakeFirst()
        if (!before && !unlocked) return false
        const user = await trx
          .selectFrom('users')
          .select('id')
          .where('email', '=', email)
          // A deletion that runs meanwhile waits, and forgets the user in this event too.
          .$if(engine.name === 'postgres', query => query.forNoKeyUpdate())
          .executeTakeFirst()
        await writeAudit(trx, change, { ...cleared(email, before), targetId: user?.id ?? null })
        return true
      }),
  }
}

/**
 * False only if the scope neither waits nor has more failures than `above`. Pending attempts, of which there are few,
 * may be failures, and failures may be over.
 */
function mayMatter(name: ScopeName, limits: ThrottleLimits, above: Floor, now: Date) {
  const { maxFailures, maxDailyFailures } = limits[name]
  const { dailyFailures, failures, key } = above
  const hasMoreForTheDay = (than: number) =>
    sql<boolean>`clears_at > ${formatTime(now, than * WINDOW_MS)}`
  const enoughForTheDay = dailyFailures === 0 ? sql`true` : hasMoreForTheDay(dailyFailures - 1)
  return sql<boolean>`(scope = ${name} and (
    pending > 0 or blocked_until is not null or failures >= ${maxFailures}
    or ${hasMoreForTheDay(Math.min(dailyFailures, (maxDailyFailures ?? Infinity) - 1))}
    or (${enoughForTheDay} and (failures > ${failures} or (failures = ${failures} and key < ${key})))))`
}

function cleared(target: string, before: AuditFacts | null) {
  const after = before && { failures: 0, blockedUntil: null }
  return { action: 'throttle.cleared' as const, target, before, after }
}

function toState(row: ScopeRow, limits: ThrottleLimits, now: Date): ScopeState {
  const { key, scope: name, email_digest: emailDigest } = row
  return stateOf({ name, key, emailDigest, ...limits[name] }, row, now)
}
