// Users, scopes and sessions for the contract suites.
import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import type { Opening, ThrottleScope } from '../../src/domain/attempt.ts'
import type { Change } from '../../src/domain/audit.ts'
import type { Purged } from '../../src/domain/maintenance.ts'
import type { NewFactor } from '../../src/domain/second-factor.ts'
import type { Store } from '../../src/domain/store.ts'

/** No user has this email. */
export const UNKNOWN_EMAIL = 'unknown@example.com'

const BUDGETS = { pair: 5, email: 20, client: 50 }

/** A change by an administrator. */
export function changeAt(at = new Date()): Change {
  return { at, by: { kind: 'user', name: 'admin', host: 'machine' } }
}

/** The changes of one user, by its email. Without a user, the id of none is given. */
export function byEmail({ users, sessions }: Pick<Store, 'users' | 'sessions'>) {
  const idOf = async (email: string) => (await users.findByEmail(email))?.id ?? randomUUID()
  const byId =
    <Values extends unknown[], Result>(change: (id: string, ...values: Values) => Result) =>
    async (email: string, ...values: Values) =>
      change(await idOf(email), ...values)
  return {
    ...{ set: byId(users.set), setPassword: byId(users.setPassword), delete: byId(users.delete) },
    ...{ activate: byId(users.activate), deactivate: byId(users.deactivate) },
    ...{ lock: byId(users.lock), unlock: byId(users.unlock), endSessions: byId(sessions.endAll) },
  }
}

export async function insertTestUser(
  store: Store,
  email: string,
  createdAt: Date,
  passwordHash = 'a hash',
): Promise<string> {
  const id = randomUUID()
  const user = { id, email, passwordHash, name: 'Name', role: 'user' }
  assert.equal(await store.users.insert(user, changeAt(createdAt)), true)
  return id
}

export function makeScopes(
  email: string = randomUUID(),
  client: string = randomUUID(),
  budgets = BUDGETS,
): ThrottleScope[] {
  const scope = (
    name: keyof typeof BUDGETS,
    counted: string,
    emailDigest: string | null,
    maxDailyFailures: number | null = null,
  ) => ({
    ...{ name, emailDigest, maxFailures: budgets[name], maxDailyFailures },
    key: digest(`${name} ${counted}`),
  })
  return [
    scope('pair', `${email} ${client}`, digest(email)),
    scope('email', email, digest(email), Math.max(100, budgets.email)),
    scope('client', client, null),
  ]
}

export const NOTHING_DISPLACED = { cookieDigest: null, usedBefore: new Date(0), maxSessions: 1_000 }

/** A token that replaces another one. */
export function makeSuccessor(issuedAt: Date, expiresAt: Date) {
  const caller = { requestDigest: 'a request', clientDigest: 'a client' }
  return { id: randomUUID(), digest: randomUUID(), keyId: 'k', issuedAt, expiresAt, ...caller }
}

/** Those of the app are of no use without its secret. */
export const NO_PROOFS = { recoveryDigest: '', credentialId: '', rpId: '' }

/** An app whose secret no key decrypts. */
export function makeFactor(usedTo: Date, id = randomUUID() as string): NewFactor {
  const none = { name: null, credentialId: null, rpId: null }
  return { id, kind: 'totp', secret: 'key.secret', usedTo, ...none }
}

/** A second factor that no key decrypts, and ten recovery codes. */
export async function addTestFactor(store: Store, id: string, email: string, now: Date) {
  const user = await store.users.findById(id)
  assert.ok(user)
  const scopes = makeScopes(email)
  await store.attempts.reserve(scopes, email, now)
  const recoveryDigests = Array.from({ length: 10 }, () => digest(randomUUID()))
  const factors = { kind: 'set' as const, factor: makeFactor(now), recoveryDigests }
  const change = { newHash: null, factors, keptDeviceId: null }
  assert.ok(await openFor(store, user, scopes, now, undefined, undefined, { change }))
}

export async function openFor(
  store: Store,
  verified: { id: string; passwordHash: string },
  scopes: ThrottleScope[],
  now: Date,
  maxSessions = NOTHING_DISPLACED.maxSessions,
  client = { id: randomUUID() as string, ip: '::1' },
  more: Pick<Opening, 'proof' | 'change'> = {},
): Promise<boolean> {
  const expiresAt = new Date(now.getTime() + 30 * 24 * 3600_000)
  const opening = {
    user: { ...verified, factorsVersion: 0 },
    session: { ...client, amr: ['pwd'], expiresAt, cookieDigest: null, userAgent: 'a browser' },
    refreshToken: { id: randomUUID(), digest: randomUUID(), keyId: 'k', issuedAt: now, expiresAt },
    device: null,
    displaced: { ...NOTHING_DISPLACED, maxSessions },
    ...more,
  }
  const ended = await store.attempts.succeed(opening, scopes, now)
  return ended !== null
}

/** Purges until no row is due; returns the result of each call. */
export async function purgeAll({ maintenance }: Store, now: Date, auditDays?: number) {
  const calls: Purged[] = []
  for (;;) {
    const purged = await maintenance.purge(now, auditDays)
    assert.ok(purged)
    calls.push(purged)
    if (purged.isDone) return calls
  }
}

/** The newest events first. */
export async function eventsOf({ audit }: Store, target: string | null, limit = 10_000) {
  return (await audit.list(target, { since: null, beforeId: null, limit })).events
}

export function toNumbers(row: Record<string, unknown> = {}) {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value)]))
}

export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
