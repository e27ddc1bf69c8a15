// The throttle, as administrators read and clear it.
import { type Selectable, sql } from 'kysely'
import type { AuditFacts } from '../../domain/audit.ts'
import type { ScopeState, ThrottleLimits, ThrottleStore } from '../../domain/throttle.ts'
import { writeAudit } from './audit.ts'
import { type Engine, transact } from './engine.ts'
import { formatTime, type Schema } from './schema.ts'
import { clearFailures, isOfEmail, keysOf } from './throttle-rows.ts'
import { STATE_COLUMNS, type StateRow, stateOf, statesOf } from './throttle-state.ts'

/** Most rows that a list of clients looks at, and most that it returns. */
const [MAX_READ, MAX_LISTED] = [5_000, 1_000]

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

    async listClients(limits, now) {
      const worst = selectedWithScope()
        // As the index is declared that finds them.
        .where('email_digest', 'is', null)
        .where('failures', '>', sql<number>`0`)
        .orderBy('failures', 'desc')
        .limit(MAX_READ)
      const rows = await engine.retrying(() =>
        engine.db
          .selectFrom(worst.as('worst'))
          .selectAll()
          .where(sql`coalesce(blocked_until, window_ends_at)`, '>', formatTime(now))
          .limit(MAX_LISTED)
          .execute(),
      )
      return rows
        .map(row => toState(row, limits, now))
        .filter(({ failures }) => failures > 0)
        .toSorted((a, b) => b.failures - a.failures || (a.key < b.key ? -1 : 1))
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

function cleared(target: string, before: AuditFacts | null) {
  const after = before && { failures: 0, blockedUntil: null }
  return { action: 'throttle.cleared' as const, target, before, after }
}

function toState(row: ScopeRow, limits: ThrottleLimits, now: Date): ScopeState {
  const { key, scope: name, email_digest: emailDigest } = row
  return stateOf({ name, key, emailDigest, ...limits[name] }, row, now)
}
