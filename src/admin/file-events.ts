// What the audit records of signing keys and admin tokens, which are in files, and which of them no event explains.
import type { AuditAction, AuditFacts, AuditStore, NewAuditEvent } from '../domain/audit.ts'
import { fingerprintOf } from '../identifiers.ts'
import type { KeySet } from '../keys/key-set.ts'
import type { AdminToken } from './tokens/token-file.ts'

type ActionOn<Kind extends string> = Extract<AuditAction, `${Kind}.${string}`>

export function keyEvents(
  action: ActionOn<'key'>,
  { accessKeys, refreshKeys }: KeySet,
): NewAuditEvent[] {
  return [...accessKeys, ...refreshKeys].map(({ keyId, algorithm, fingerprint }) => {
    const tokens = algorithm === 'HS256' ? 'refresh' : 'access'
    return toEvent(action, keyId, { tokens, algorithm, fingerprint })
  })
}

export function tokenEvent(action: ActionOn<'token'>, token: AdminToken): NewAuditEvent {
  const { name, role, expiresAt, digest } = token
  return toEvent(action, name, {
    role,
    expiresAt: expiresAt?.toISOString() ?? null,
    fingerprint: fingerprintOf(digest),
  })
}

function toEvent(action: AuditAction, target: string, facts: AuditFacts): NewAuditEvent {
  const isGone = action === 'key.removed' || action === 'token.revoked'
  return { action, target, targetId: null, [isGone ? 'before' : 'after']: facts }
}

/**
 * Returns those of the events `key.found` and `token.found` that the audit does not explain: the last event with the same
 * facts is a removal, or there is none. So a role, an end or a secret that was changed by hand is not explained either.
 */
export async function findUnexplained(
  audit: AuditStore,
  found: NewAuditEvent[],
): Promise<NewAuditEvent[]> {
  const isExplained = await Promise.all(
    found.map(async ({ action, target, after }) => {
      const [kind] = action.split('.')
      const facts = JSON.stringify(after)
      const { events } = await audit.list(target, { since: null, beforeId: null, limit: LOOKED_AT })
      const last = events.find(
        event =>
          event.action.startsWith(`${kind}.`) &&
          JSON.stringify(event.after ?? event.before) === facts,
      )
      return last?.after != null
    }),
  )
  return found.filter((_, index) => !isExplained[index])
}

/** More changes of one key or token than an administrator makes. */
const LOOKED_AT = 100
