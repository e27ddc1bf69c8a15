// Admits requests with a valid admin token.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type AdminToken, isExpired } from '../../admin/tokens/token-file.ts'
import { codeOf } from '../../files.ts'
import { digestOf } from '../../identifiers.ts'
import { sendFailure } from '../answer/envelope.ts'
import { bearerTokenOf } from '../request/bearer.ts'
import { clientOf } from '../request/client.ts'
import { logCounted } from '../request/log.ts'
import type { TokensByDigest } from './current-tokens.ts'
import { createFailureLimit, createRequestLimit } from './limits.ts'

/** The request's decorator for its token; null until it has been admitted. */
export const TOKEN = 'adminToken'

const REFUSED = 'This token is not valid. Send the header "Authorization: Bearer TOKEN".'
const READ_ONLY = 'This token may only read'

type Reason = 'no-token' | 'unknown-token' | 'expired-token' | 'read-only' | 'limit'

export function tokenOf(request: FastifyRequest): AdminToken {
  return request.getDecorator<AdminToken>(TOKEN)
}

export function isChange({ method }: FastifyRequest): boolean {
  return method !== 'GET' && method !== 'HEAD'
}

type AccessDeps = {
  currentTokens: () => Promise<TokensByDigest>
  clock: () => Date
  onRead: (tokenName: string) => void
}

/** An onRequest hook, so that no body is read before the token is known to be valid. */
export function admitTokens({ currentTokens, clock, onRead }: AccessDeps) {
  const takeRequest = createRequestLimit()
  const countFailure = createFailureLimit()

  return async (request: FastifyRequest, reply: FastifyReply) => {
    const shown = bearerTokenOf(request)
    const tokens = await currentTokens().catch((error: Error) => {
      const reason = codeOf(error) || error.message
      logCounted(request, 'error', { event: 'admin.tokens_unusable', reason })
      return null
    })
    const token = tokens?.get(digestOf(shown ?? ''))
    if (!token || isExpired(token, clock())) {
      const unknown = shown === null ? 'no-token' : 'unknown-token'
      logRefused(request, token ? 'expired-token' : unknown, token)
      // While the file cannot be used, a valid token is refused too, and must not be counted.
      const retryAfterSeconds = tokens && countFailure(clientOf(request).group)
      return retryAfterSeconds
        ? sendFailure(reply, 'TOO_MANY_REQUESTS', { retryAfterSeconds })
        : sendFailure(reply, 'INVALID_TOKEN', { message: REFUSED, isTokenRefused: shown !== null })
    }
    if (!takeRequest(token.name)) {
      logRefused(request, 'limit', token)
      return sendFailure(reply, 'TOO_MANY_REQUESTS', { retryAfterSeconds: 1 })
    }
    if (token.role === 'read' && isChange(request)) {
      logRefused(request, 'read-only', token)
      return sendFailure(reply, 'FORBIDDEN', { message: READ_ONLY })
    }
    if (!isChange(request)) onRead(token.name)
    request.setDecorator(TOKEN, token)
  }
}

function logRefused(request: FastifyRequest, reason: Reason, token?: AdminToken): void {
  const facts = { event: 'admin.refused', reason, ...(token && { tokenName: token.name }) }
  logCounted(request, 'warn', facts)
}
