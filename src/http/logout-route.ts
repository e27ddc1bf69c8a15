// POST /api/v1/auth/logout: ends the session of a token or cookie; the answer tells nothing.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { readRefreshToken } from '../session/refresh-token.ts'
import { digestOf } from '../session/secrets.ts'
import type { LiveSession } from '../storage/store.ts'
import { clearSessionCookie, sessionCookieOf } from './cookies.ts'
import { sendSuccess } from './envelope.ts'
import { accessOf, bodyTokenOf, type SessionAccess, sendDenied } from './session-access.ts'

export function logoutRoute(deps: SessionAccess) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const token = bodyTokenOf(request)
    let live: LiveSession | null = null
    if (token !== null) {
      live = await sessionOfToken(deps, token)
    } else {
      const access = await accessOf(deps, request)
      if (access.kind === 'forged') return sendDenied(reply, access)
      if (access.kind === 'granted') live = access.live
    }
    if (live && (await deps.store.endSession(live.session.id, deps.clock()))) {
      const { session, user } = live
      request.log.info({
        event: 'session.ended',
        sessionId: session.id,
        userId: user.id,
        reason: 'logout',
      })
    }
    // A cookie that came along with a token may be another session's.
    const isByCookie = token === null && request.headers.authorization === undefined
    if (isByCookie && sessionCookieOf(request) !== null) clearSessionCookie(reply)
    return sendSuccess(reply, {})
  }
}

/** Also of a token that was rotated: whoever logs out with an old one means the session. */
async function sessionOfToken(
  { store, keys, tokens, clock }: SessionAccess,
  token: string,
): Promise<LiveSession | null> {
  const id = await readRefreshToken(keys, tokens.issuer, token, clock())
  const presented = id && (await store.findRefreshToken(id, digestOf(token), clock()))
  return presented ? presented.live : null
}
