// The scopes that count the failures of an attempt, and how many each allows.
import type { Budgets, ScopeName, ThrottleScope } from '../domain/attempt.ts'
import type { Device } from '../domain/user.ts'
import { digestOf } from '../identifiers.ts'

/** A known device has its own failures, which other callers cannot use up. */
const DEVICE_FAILURES = 5
/**
 * Without a daily limit, slow guessing at one email from many addresses would get 1,920 failures in a day.
 * With it, the first 100 are followed by one in each window of 15 minutes: about 190 in all.
 */
const DAILY_EMAIL_FAILURES = 100

export function throttleScopes(
  email: string,
  { group, network }: { group: string; network: string | null },
  budgets: Budgets,
): ThrottleScope[] {
  const emailDigest = digestOf(email)
  const scopes = [
    toScope('pair', [email, group], emailDigest, budgets.pair),
    {
      ...toScope('email', [email], emailDigest, budgets.email),
      // A larger limit for 15 minutes must not be cut by the limit for a day.
      maxDailyFailures: Math.max(DAILY_EMAIL_FAILURES, budgets.email),
    },
    toScope('client', [group], null, budgets.client),
  ]
  if (network !== null) scopes.push(toScope('network', [network], null, budgets.network))
  return scopes
}

/** The only scope of an attempt from a device that is known to the account. */
export function deviceScopes(email: string, device: Device): ThrottleScope[] {
  return [toScope('device', [device.id], digestOf(email), DEVICE_FAILURES)]
}

function toScope(
  name: ScopeName,
  counted: string[],
  emailDigest: string | null,
  maxFailures: number,
): ThrottleScope {
  const key = digestOf(JSON.stringify([name, ...counted]))
  return { name, key, emailDigest, maxFailures, maxDailyFailures: null }
}
