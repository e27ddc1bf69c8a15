// The roles whose users must have a second factor, and the end of sessions of those without one.
import { type Invalid, invalid, type LiveSession } from '../domain/session.ts'
import type { Store } from '../domain/store.ts'

/** As in SECOND_FACTOR_ROLES: `*` stands for every role. */
export type DemandingRoles = readonly string[]

export function demandsSecondFactor(roles: DemandingRoles, role: string): boolean {
  return roles.includes('*') || roles.includes(role)
}

type Deps = {
  store: { sessions: Pick<Store['sessions'], 'end'> }
  secondFactorRoles: DemandingRoles
  clock: () => Date
}

type Checked = Pick<LiveSession, 'user' | 'hasSecondFactor'> & { session: { id: string } }

/** `ended` is null if another call has ended it. */
export type EndedWithoutFactor = Invalid<'no-second-factor'> & {
  ended: { id: string; userId: string } | null
}

/** Ends the session if its user lacks a second factor that its role demands; null if there is nothing to object to. */
export async function endWithoutSecondFactor(
  { store, secondFactorRoles, clock }: Deps,
  { user, session, hasSecondFactor }: Checked,
): Promise<EndedWithoutFactor | null> {
  if (hasSecondFactor || !demandsSecondFactor(secondFactorRoles, user.role)) return null
  const isEnded = await store.sessions.end(session.id, clock())
  const ended = isEnded ? { id: session.id, userId: user.id } : null
  return { ...invalid('no-second-factor'), ended }
}
