// A user's own sessions: lists them page by page, and ends one of them or all others.
import type { LiveSession, Session } from '../domain/session.ts'
import type { SessionDeps } from './authenticate.ts'

type Deps = Pick<SessionDeps, 'store' | 'clock'>

/** In the order of their logins; `next` is the id to continue after. Null if there is no session `afterId`. */
export async function listOwnSessions(
  { store, clock }: Deps,
  { user }: LiveSession,
  { afterId, limit }: { afterId: string | null; limit: number },
): Promise<{ sessions: Session[]; next: string | null } | null> {
  // One more row than asked for shows whether there is a next page.
  const found = await store.sessions.listLive(user.id, { afterId, limit: limit + 1 }, clock())
  if (found === null) return null
  const sessions = found.slice(0, limit)
  return { sessions, next: found.length > limit ? (sessions.at(-1)?.id ?? null) : null }
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
