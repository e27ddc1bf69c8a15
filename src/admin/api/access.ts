// Admits requests with a valid admin token.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { codeOf } from '../../files.ts'
import { sendFailure } from '../../http/answer/envelope.ts'
import { bearerTokenOf } from '../../http/request/bearer.ts'
import { logCounted } from '../../http/request/log.ts'
import { digestOf } from '../../identifiers.ts'
import { type AdminToken, isExpired } from '../tokens/token-file.ts'
import type { TokensByDigest } from './current-tokens.ts'

/** The request's decorator for its token; null until it has been admitted. */
export const TOKEN = 'adminToken'

const REFUSED = 'This token is not valid. Send the header "Authorization: Bearer TOKEN".'
const READ_ONLY = 'This token may only read'

type Reason = 'no-token' | 'unknown-token' | 'expired-token' | 'read-only'

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
      return sendFailure(reply, 'INVALID_TOKEN', {
        message: REFUSED,
        isTokenRefused: shown !== null,
      })
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
