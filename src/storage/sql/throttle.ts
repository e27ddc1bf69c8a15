// The throttle, as administrators read and clear it.
import { sql } from 'kysely'
import type { AuditFacts } from '../../domain/audit.ts'
import type { ScopeState, ThrottleLimits, ThrottleStore } from '../../domain/throttle.ts'
import { rowOf, type ScopeRow, stateOf } from '../../domain/throttle-rules.ts'
import { writeAudit } from './audit.ts'
import { type Engine, transact } from './engine.ts'
import { lockForChange } from './lock-for-change.ts'
import { runWithin } from './prepared.ts'
import { formatTime } from './schema.ts'
import { clearEmail, clearKeys, keysOf, toScopeRow } from './throttle-rows.ts'

/** Most rows that a list of clients looks at, and most that it returns. */
const [MAX_READ, MAX_LISTED] = [5_000, 1_000]

export function createThrottleStore(engine: Engine): ThrottleStore {
  const selected = () => engine.db.selectFrom('login_throttle').selectAll()

  return {
    async read(scopes, now) {
      if (scopes.length === 0) return []
      const rows = await engine.retrying(() =>
        selected().where('key', 'in', keysOf(scopes)).execute(),
      )
      const found = rows.map(toScopeRow)
      return scopes.map(scope => stateOf(scope, rowOf(scope, found), now))
    },

    async readOfEmail(emailDigest, limits, now) {
      const rows = await engine.retrying(() =>
        selected().where('email_digest', '=', emailDigest).execute(),
      )
      return rows.map(row => toState(toScopeRow(row), limits, now))
    },

    async listClients(limits, now) {
      const worst = selected()
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
        .map(row => toState(toScopeRow(row), limits, now))
        .filter(({ failures }) => failures > 0)
        .toSorted((a, b) => b.failures - a.failures || (a.key < b.key ? -1 : 1))
    },

    clear: (keys, client, change) =>
      transact(engine, async trx => {
        const before = await runWithin(trx, clearKeys(keys, change.at))
        if (!before) return false
        await writeAudit(trx, change, { ...cleared(client, before), targetId: null })
        return true
      }),

    clearOfEmail: (email, change) =>
      transact(engine, async trx => {
        // A deletion that runs meanwhile waits, and forgets the user in this event too.
        const user = await lockForChange(engine, trx, 'email', email)
        const before = await runWithin(trx, clearEmail(email, change.at))
        const isFreed = user?.lockedBy === 'throttle'
        if (!before && !isFreed) return false
        if (isFreed) {
          await trx
            .updateTable('users')
            .set({ locked_until: null, locked_by: null, updated_at: formatTime(change.at) })
            .where('id', '=', user.id)
            .execute()
        }
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
  const { key, name, emailDigest } = row
  return stateOf({ key, name, emailDigest, ...limits[name] }, row, now)
}
