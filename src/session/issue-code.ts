// Gives the login page a one-time code, which it passes to an application of another site.
import { CODE_SECONDS } from '../domain/lifetimes.ts'
import type { LiveSession } from '../domain/session.ts'
import type { Store } from '../domain/store.ts'
import { digestOf, randomToken } from '../system/identifiers.ts'
import type { Limited, RefreshLimits } from './rate-limit.ts'

export type IssueDeps = {
  store: Pick<Store, 'codes'>
  clock: () => Date
  refreshLimits: RefreshLimits
}

/** Counted like a refresh, so that a session cannot fill the table. */
export async function issueCode(
  { store, clock, refreshLimits }: IssueDeps,
  { session, user }: LiveSession,
  callback: string,
  challenge: string,
): Promise<{ kind: 'issued'; code: string } | Limited> {
  const limited = refreshLimits.count(session.id, user.id)
  if (limited) return limited
  const code = randomToken()
  const expiresAt = new Date(clock().getTime() + CODE_SECONDS * 1000)
  await store.codes.insert(digestOf(code), session.id, { callback, challenge, expiresAt })
  return { kind: 'issued', code }
}
