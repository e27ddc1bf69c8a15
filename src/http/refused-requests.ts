// One line for each request that is refused for where it comes from, or where it leads to.
import type { FastifyRequest } from 'fastify'
import { logOf } from './transport.ts'

export type RequestRefusal =
  | 'csrf-other-site'
  | 'csrf-no-token'
  | 'csrf-wrong-token'
  | 'origin'
  | 'return-to'

/** Longer than the origin of any site; a header may be as long as all headers together. */
const ORIGIN_MAX_CHARACTERS = 256

const refused = new WeakSet<FastifyRequest>()

/** Of an address that was sent, its origin is all that may be logged. */
export function logRefused(request: FastifyRequest, reason: RequestRefusal, origin?: string): void {
  refused.add(request)
  const facts = { event: 'request.refused', reason }
  logOf(request).refused(
    'warn',
    origin === undefined ? facts : { ...facts, origin: origin.slice(0, ORIGIN_MAX_CHARACTERS) },
  )
}

/** True if the request has its line already. */
export function isRefused(request: FastifyRequest): boolean {
  return refused.has(request)
}
