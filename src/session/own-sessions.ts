// A user's own sessions: lists them page by page, and ends one of them or all others; and the user's second factors.
import { type ListedFactors, NO_FACTORS } from '../domain/second-factor.ts'
import type { LiveSession, Session, SessionPage } from '../domain/session.ts'
import type { SessionDeps } from './authenticate.ts'

type Deps = { store: Pick<SessionDeps['store'], 'sessions' | 'secondFactors'>; clock: () => Date }

/** As `listLive`; `next` is the id to continue after. Null if there is no session `afterId`. */
export async function listOwnSessions(
  { store, clock }: Deps,
  { user }: { user: { id: string } },
  page: SessionPage,
): Promise<{ sessions: Session[]; next: string | null } | null> {
  // One more row than asked for shows whether there is a next page.
  const found = await store.sessions.listLive(user.id, { ...page, limit: page.limit + 1 }, clock())
  if (found === null) return null
  const sessions = found.slice(0, page.limit)
  return { sessions, next: found.length > page.limit ? (sessions.at(-1)?.id ?? null) : null }
}

/** False if the user has no such live session. */
export async function endOwnSession(
  { store, clock }: Deps,
  { user }: LiveSession,
  sessionId: string,
): Promise<boolean> {
  const key = { kind: 'token' as const, sessionId, userId: user.id }
  return (await store.sessions.endOf(key, clock())) !== null
}

/** The ids of the sessions that it ended. Null, with nothing ended, if this session has been ended meanwhile. */
export function endOtherSessions(
  { store, clock }: Deps,
  { session, user }: LiveSession,
): Promise<string[] | null> {
  return store.sessions.endOthers(user.id, session.id, clock())
}

/** Reads nothing for a user without one. */
export async function listOwnFactors(
  { store }: Pick<Deps, 'store'>,
  { user, hasSecondFactor }: LiveSession,
): Promise<ListedFactors> {
  return hasSecondFactor ? store.secondFactors.list(user.id) : NO_FACTORS
}
