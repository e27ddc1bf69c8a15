// The throttle: which emails, clients and networks have failures, how long they wait, and how to end that.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Budgets, ScopeName, ThrottleScope } from '../../domain/attempt.ts'
import {
  type Floor,
  type ScopeState,
  type ThrottleStore,
  waitsUntil,
} from '../../domain/throttle.ts'
import type { UserStore } from '../../domain/user.ts'
import { digestOf } from '../../identifiers.ts'
import type { CountedClient } from '../../login/client-group.ts'
import { clientScopes, emailScope, limitsOf, throttleScopes } from '../../login/scopes.ts'
import { BLOCK_CACHED_MS } from '../../login/throttle.ts'
import { type AdminDeps, changeNow } from './deps.ts'

export type ShownScope = Omit<ScopeState, 'name' | 'key' | 'emailDigest'> & {
  scope: ScopeName
  /** Names the scope without naming the email, client or device. */
  digest: string
  waitsUntil: Date | null
}

/** The clients that have failed with one email. */
type ClientsOfEmail = {
  clients: number
  waiting: number
  /** When the last of them need no longer wait. */
  waitsUntil: Date | null
}

/** What counts attempts with an email, of a client, or both. */
export type Named = { email: string | null; client: CountedClient | null }

export type ShownThrottle = {
  /** Those of an attempt, in the order pair, email, client, network; only what `Named` names. */
  scopes: ShownScope[]
  /** Null without an email. */
  clients: ClientsOfEmail | null
}

export async function showThrottle(
  { store, clock, budgets }: AdminDeps,
  named: Named,
  now = clock(),
): Promise<ShownThrottle> {
  const { email } = named
  const scopes = await store.throttle.read(scopesOf(named, budgets), now)
  return {
    scopes: scopes.map(state => toShownScope(state, now)),
    clients:
      email === null
        ? null
        : toClients(await store.throttle.readOfEmail(digestOf(email), limitsOf(budgets), now), now),
  }
}

function scopesOf({ email, client }: Named, budgets: Budgets): ThrottleScope[] {
  if (email === null) return client === null ? [] : clientScopes(client, budgets)
  return client === null ? [emailScope(email, budgets)] : throttleScopes(email, client, budgets)
}

export function toShownScope(state: ScopeState, now: Date): ShownScope {
  const { name, key, emailDigest: _, ...rest } = state
  return { scope: name, digest: key, ...rest, waitsUntil: waitsUntil(state, now) }
}

function toClients(states: ScopeState[], now: Date): ClientsOfEmail {
  const pairs = states.filter(({ name }) => name === 'pair')
  const waits = pairs.flatMap(state => waitsUntil(state, now) ?? [])
  return {
    clients: pairs.filter(({ failures, pending }) => failures + pending > 0).length,
    waiting: waits.length,
    waitsUntil: latestOf(waits),
  }
}

export function latestOf(times: Date[]): Date | null {
  return times.reduce<Date | null>((a, b) => (a === null || b > a ? b : a), null)
}

export type AttackedEmail = Pick<
  ShownScope,
  'digest' | 'failures' | 'dailyFailures' | 'waitsUntil'
> & {
  /** Null if no user has this email: a digest cannot be turned back. */
  email: string | null
  /** How many clients have failed with this email. */
  clients: number
}
export type FailingClient = Pick<ShownScope, 'scope' | 'digest' | 'failures' | 'waitsUntil'>

export type ThrottleList = {
  /** How many emails, clients and networks must wait, in the whole throttle. */
  waiting: Record<'email' | 'client' | 'network', number>
  /** The most failures for the day first. */
  emails: AttackedEmail[]
  /** Clients and networks, the most failures first. */
  clients: FailingClient[]
}

/** The 100 failures for the day are forgiven within 25 hours; longer, in case that a clock was wrong. */
const FAILURES_KEPT_MS = 2 * 24 * 3_600_000

type EmailPage = Awaited<ReturnType<UserStore['listEmails']>>
type ListedScopes = Awaited<ReturnType<ThrottleStore['list']>>

/**
 * Reads the whole throttle in pages and keeps the `top` of each kind. Emails are found by hashing those of users
 * that may have failures. Not atomic: attempts go on meanwhile.
 */
export async function listThrottle(
  { store, clock, budgets }: AdminDeps,
  top: number,
): Promise<ThrottleList> {
  const limits = limitsOf(budgets)
  const now = clock()
  const waiting = { email: 0, client: 0, network: 0 }
  let emails: ScopeState[] = []
  let clients: ScopeState[] = []
  for (let from: number | null = 0; from !== null; ) {
    const above = { emails: floorOf(top, emails), clients: floorOf(top, clients) }
    const { scopes, next }: ListedScopes = await store.throttle.list(from, limits, now, above)
    for (const state of scopes) {
      if (state.name === 'pair' || state.name === 'device') continue
      if (waitsUntil(state, now)) waiting[state.name]++
      if (state.name === 'email') emails.push(state)
      else clients.push(state)
    }
    emails = firstOf(top, emails)
    clients = firstOf(top, clients)
    from = next
  }
  const names = await findEmails(store.users, emails, now)
  const attacked: AttackedEmail[] = []
  for (const state of emails) {
    const ofEmail = await store.throttle.readOfEmail(state.emailDigest ?? '', limits, now)
    const { digest, failures, dailyFailures, waitsUntil } = toShownScope(state, now)
    const email = names.get(state.emailDigest ?? '') ?? null
    const { clients } = toClients(ofEmail, now)
    attacked.push({ email, digest, failures, dailyFailures, clients, waitsUntil })
  }
  return {
    waiting,
    emails: attacked,
    clients: clients.map(state => {
      const { scope, digest, failures, waitsUntil } = toShownScope(state, now)
      return { scope, digest, failures, waitsUntil }
    }),
  }
}

/** A scope that changed while it was read may be there twice: the later state counts. */
function firstOf(top: number, scopes: ScopeState[]): ScopeState[] {
  return [...new Map(scopes.map(scope => [scope.key, scope])).values()]
    .toSorted(
      (a, b) =>
        b.dailyFailures - a.dailyFailures || b.failures - a.failures || (a.key < b.key ? -1 : 1),
    )
    .slice(0, top)
}

/** What a further scope must exceed to be among the first `top`. */
function floorOf(top: number, first: ScopeState[]): Floor {
  return first[top - 1] ?? { dailyFailures: 0, failures: 0, key: '' }
}

/** The emails of users by their digest, as far as they are among these scopes. */
async function findEmails(
  users: UserStore,
  scopes: ScopeState[],
  now: Date,
): Promise<Map<string, string>> {
  const wanted = new Set(scopes.map(({ emailDigest }) => emailDigest))
  const found = new Map<string, string>()
  const since = new Date(now.getTime() - FAILURES_KEPT_MS)
  for (let from: number | null = 0; from !== null && found.size < wanted.size; ) {
    const page: EmailPage = await users.listEmails(from, since)
    for (const email of page.emails) {
      const digest = digestOf(email)
      if (wanted.has(digest)) found.set(digest, email)
    }
    from = page.next
  }
  return found
}

/**
 * Clears the failures and blocks of a client and, for IPv6, of its network. False if there were none. Blocks
 * of single emails from this client stay: their rows do not name the client.
 */
export async function clearClient(deps: AdminDeps, client: CountedClient): Promise<boolean> {
  const keys = clientScopes(client, deps.budgets).map(({ key }) => key)
  const isCleared = await deps.store.throttle.clear(keys, client.ip, changeNow(deps))
  await sleep(BLOCK_CACHED_MS)
  return isCleared
}

/** Clears the failures and blocks of an email, also of its clients and devices. False if there were none. */
export async function clearEmail(deps: AdminDeps, email: string): Promise<boolean> {
  const isCleared = await deps.store.throttle.clearOfEmail(email, changeNow(deps))
  await sleep(BLOCK_CACHED_MS)
  return isCleared
}
