// What the audit records of signing keys and admin tokens, which are in files.
import type { AuditAction, AuditFacts, NewAuditEvent } from '../domain/audit.ts'
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
