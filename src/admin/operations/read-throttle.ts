// The throttle: which emails, clients and networks have failures, and how long they wait.
import type { Budgets, ScopeName, ThrottleScope } from '../../domain/attempt.ts'
import { type ScopeState, waitsUntil } from '../../domain/throttle.ts'
import type { ListedUsers, UserStore } from '../../domain/user.ts'
import { clientScopes, emailScope, limitsOf, throttleScopes } from '../../login/scopes.ts'
import type { CountedClient } from '../../system/client-group.ts'
import { digestOf } from '../../system/identifiers.ts'
import type { AdminDeps } from './deps.ts'

type ReadDeps = Pick<AdminDeps, 'store' | 'clock' | 'budgets'>

export type ShownScope = Omit<ScopeState, 'name' | 'key' | 'emailDigest'> & {
  scope: ScopeName
  /** Names the scope without naming the email, client or device. */
  digest: string
  waitsUntil: Date | null
}

/** What counts attempts with an email, of a client, or both. */
type Named = { email: string | null; client: CountedClient | null }

export type ShownThrottle = Awaited<ReturnType<typeof showThrottle>>

export async function showThrottle(
  { store, clock, budgets }: ReadDeps,
  named: Named,
  now = clock(),
) {
  const { email } = named
  const scopes = await store.throttle.read(scopesOf(named, budgets), now)
  return {
    /** Those of an attempt, in the order pair, email, client, network; only what `named` names. */
    scopes: scopes.map(state => toShownScope(state, now)),
    /** Null without an email. */
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

/** The clients that have failed with one email. `waitsUntil`: when the last of them need no longer wait. */
function toClients(states: ScopeState[], now: Date) {
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

export type ThrottleList = Awaited<ReturnType<typeof listThrottle>>

const MAX_WAITING_USERS = 1_000

/** Not atomic: attempts go on meanwhile. */
export async function listThrottle({ store, clock, budgets }: ReadDeps, top: number) {
  const limits = limitsOf(budgets)
  const now = clock()
  const waiting = await listWaitingEmails(store.users, now)
  const scopes = waiting.map(email => emailScope(email, budgets))
  const emails = (await store.throttle.read(scopes, now))
    .map((state, i) => {
      const { digest, failures, dailyFailures, waitsUntil } = toShownScope(state, now)
      return { email: waiting[i] ?? '', digest, failures, dailyFailures, clients: 0, waitsUntil }
    })
    .toSorted((a, b) => b.dailyFailures - a.dailyFailures)
    .slice(0, top)
  for (const shown of emails) {
    const ofEmail = await store.throttle.readOfEmail(digestOf(shown.email), limits, now)
    shown.clients = toClients(ofEmail, now).clients
  }
  const clients = (await store.throttle.listClients(limits, now)).map(state => {
    const { scope, digest, failures, waitsUntil } = toShownScope(state, now)
    return { scope, digest, failures, waitsUntil }
  })
  const count = (name: ScopeName) =>
    clients.filter(({ scope, waitsUntil }) => scope === name && waitsUntil).length
  return {
    /** How many users must wait, up to 1,000, and how many of the 1,000 clients and networks with the most failures. */
    waiting: { email: waiting.length, client: count('client'), network: count('network') },
    /** Those of users that must wait, the most failures for the day first. */
    emails,
    /** Clients and networks, the most failures first. */
    clients: clients.slice(0, top),
  }
}

/** The emails of users that the throttle has locked, in order. */
async function listWaitingEmails(store: UserStore, now: Date): Promise<string[]> {
  const emails: string[] = []
  for (let after: string | null = ''; after !== null && emails.length < MAX_WAITING_USERS; ) {
    const page = { after, limit: MAX_WAITING_USERS - emails.length }
    const { users, next }: ListedUsers = await store.list({ state: 'waiting' }, page, now)
    emails.push(...users.map(({ email }) => email))
    after = next
  }
  return emails
}
