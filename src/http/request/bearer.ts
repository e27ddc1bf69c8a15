// The token of the Authorization header.
import type { FastifyRequest } from 'fastify'

/** Null for any other scheme, which is not meant for this service. */
export function bearerTokenOf({ headers }: FastifyRequest): string | null {
  const [scheme = '', token = ''] = (headers.authorization ?? '').split(' ', 2)
  return scheme.toLowerCase() === 'bearer' ? token : null
}
