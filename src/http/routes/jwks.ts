// GET /.well-known/jwks.json: the keys that verify access tokens.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Keys } from '../../keys/key-set.ts'

/** Shorter than the time between a key's publication and its first use, so that caches know it in time. */
const CACHE_SECONDS = 30

export function jwksRoute(keys: Keys) {
  return async (_request: FastifyRequest, reply: FastifyReply) =>
    reply.header('Cache-Control', `public, max-age=${CACHE_SECONDS}`).send(keys.publicJwks())
}
