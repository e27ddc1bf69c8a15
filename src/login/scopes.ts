// The scopes that count the failures of an attempt, and how many each allows.
import type { Budgets, ScopeName, ThrottleScope } from '../domain/attempt.ts'
import type { Device } from '../domain/device.ts'
import type { ThrottleLimits } from '../domain/throttle.ts'
import { digestOf } from '../system/identifiers.ts'

/** A known device has its own failures, which other callers cannot use up. */
const DEVICE_LIMIT = { maxFailures: 5, maxDailyFailures: null }
/**
 * Without a daily limit, slow guessing at one email from many addresses would get 1,920 failures in a day.
 * With it, it gets 100 and one every 15 minutes: at most 198 in any 24 hours (docs/decisions/0002).
 */
const DAILY_EMAIL_FAILURES = 100

type Client = { group: string; network: string | null }

export function limitsOf(budgets: Budgets): ThrottleLimits {
  const inWindow = (maxFailures: number) => ({ maxFailures, maxDailyFailures: null })
  return {
    pair: inWindow(budgets.pair),
    email: {
      maxFailures: budgets.email,
      // A larger limit for 15 minutes must not be cut by the limit for a day.
      maxDailyFailures: Math.max(DAILY_EMAIL_FAILURES, budgets.email),
    },
    client: inWindow(budgets.client),
    network: inWindow(budgets.network),
    device: DEVICE_LIMIT,
  }
}

export function throttleScopes(email: string, client: Client, budgets: Budgets): ThrottleScope[] {
  const limits = limitsOf(budgets)
  const emailDigest = digestOf(email)
  return [
    toScope('pair', [email, client.group], emailDigest, limits.pair),
    toScope('email', [email], emailDigest, limits.email),
    ...toClientScopes(client, limits),
  ]
}

export function emailScope(email: string, budgets: Budgets): ThrottleScope {
  return toScope('email', [email], digestOf(email), limitsOf(budgets).email)
}

/** The scopes that count all attempts of a client, at any email. */
export function clientScopes(client: Client, budgets: Budgets): ThrottleScope[] {
  return toClientScopes(client, limitsOf(budgets))
}

function toClientScopes({ group, network }: Client, limits: ThrottleLimits): ThrottleScope[] {
  const client = toScope('client', [group], null, limits.client)
  return network === null ? [client] : [client, toScope('network', [network], null, limits.network)]
}

/** The only scope of an attempt from a device that is known to the account. A user with a new email gets a new one. */
export function deviceScopes(email: string, device: Pick<Device, 'id'>): ThrottleScope[] {
  return [toScope('device', [device.id, email], digestOf(email), DEVICE_LIMIT)]
}

function toScope(
  name: ScopeName,
  counted: string[],
  emailDigest: string | null,
  limit: ThrottleLimits[ScopeName],
): ThrottleScope {
  const key = digestOf(JSON.stringify([name, ...counted]))
  return { name, key, emailDigest, ...limit }
}
