// Admits requests with a valid admin token, as far as its role allows. Each request reads the token from the database,
// so that a revocation holds at once for all instances.
import type { FastifyReply, FastifyRequest } from 'fastify'
import {
  type AdminToken,
  type AdminTokenStore,
  TOKEN_TOUCH_SECONDS,
} from '../../domain/admin-token.ts'
import { sendFailure } from '../../http/answer/envelope.ts'
import { bearerTokenOf } from '../../http/request/bearer.ts'
import { isChange } from '../../http/request/csrf.ts'
import { logCounted } from '../../http/request/log.ts'
import { digestOf, isAdminToken } from '../../system/identifiers.ts'
import { OPERATIONS } from '../operations.ts'
import { addressOf } from './route.ts'
import { createWorkQueue } from './work-queue.ts'

/** The request's decorator for its token; null until it has been admitted. */
export const TOKEN = 'adminToken'

const REFUSED = 'This token is not valid. Send the header "Authorization: Bearer TOKEN".'

type Role = AdminToken['role']
type Reason = 'no-token' | 'unknown-token' | 'expired-token' | 'read-only' | 'create-only'

const ALLOWED: Record<Role, (request: FastifyRequest) => boolean> = {
  read: request => !isChange(request),
  create({ method, routeOptions }) {
    const address = addressOf(OPERATIONS.addUser)
    return method === address?.method && routeOptions.url === address.url
  },
  write: () => true,
}

/** With `role` it could make administrators; a hash or `allowWeak` would evade the rules of passwords. */
const CREATE_FIELDS = ['email', 'name', 'password', 'generate']

export function tokenOf(request: FastifyRequest): AdminToken {
  return request.getDecorator<AdminToken>(TOKEN)
}

/**
 * An onRequest hook, so that no body is read before the token is known to be valid. Tokens that were not valid at their
 * last request, such as invented ones, wait for each other, so that a flood of them does not delay the others.
 */
export function admitTokens(
  tokens: AdminTokenStore,
  clock: () => Date,
  onRead: (tokenName: string) => void,
) {
  const valid = new Set<string>()
  const oneAtATime = createWorkQueue()
  async function findToken(digest: string) {
    const find = () => tokens.find(digest)
    const token = await (valid.has(digest) ? find() : oneAtATime(find))
    if (token && token.expiresAt > clock()) valid.add(digest)
    else valid.delete(digest)
    return token
  }

  return async (request: FastifyRequest, reply: FastifyReply) => {
    const shown = bearerTokenOf(request)
    const token = isAdminToken(shown) ? await findToken(digestOf(shown)) : null
    const now = clock()
    if (!token || token.expiresAt <= now) {
      const unknown = shown === null ? 'no-token' : 'unknown-token'
      logRefused(request, token ? 'expired-token' : unknown, token)
      const isTokenRefused = shown !== null
      return sendFailure(reply, 'INVALID_TOKEN', { message: REFUSED, isTokenRefused })
    }
    const { name, role, lastUsedAt } = token
    if (!ALLOWED[role](request)) {
      logRefused(request, role === 'create' ? 'create-only' : 'read-only', token)
      const message = `This token may only ${role === 'create' ? 'add users' : 'read'}`
      return sendFailure(reply, 'FORBIDDEN', { message })
    }
    // A time in the future was written by a clock that was wrong.
    const sinceUseMs = Math.abs(now.getTime() - Number(lastUsedAt))
    if (sinceUseMs >= TOKEN_TOUCH_SECONDS * 1000) await tokens.touch(name, now)
    if (!isChange(request)) onRead(name)
    request.setDecorator(TOKEN, token)
  }
}

/** Why the role of the token does not allow the body; null if it does. */
export function problemWithFields(request: FastifyRequest): string | null {
  if (tokenOf(request).role !== 'create') return null
  const isAllowed = Object.keys(Object(request.body)).every(name => CREATE_FIELDS.includes(name))
  return isAllowed ? null : `This token may only send ${CREATE_FIELDS.join(', ')}`
}

function logRefused(request: FastifyRequest, reason: Reason, token: AdminToken | null): void {
  const facts = { event: 'admin.refused', reason, ...(token && { tokenName: token.name }) }
  logCounted(request, 'warn', facts)
}
