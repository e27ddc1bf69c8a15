// GET /.well-known/jwks.json: the keys that verify access tokens.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Keys } from '../../keys/key-set.ts'
import { header, named, object, operation, text, whole } from '../openapi/operation.ts'

/** Shorter than the time between a key's publication and its first use, so that caches know it in time. */
const CACHE_SECONDS = 30

const string = { type: 'string' }

const KEY = object(
  {
    kty: text('EC, OKP or RSA.', { examples: ['EC'] }),
    kid: { ...string, examples: ['zLrMFVuQNBOtY1dLWTzVUb_W3BpkLrbOwvmD62LHf_0'] },
    alg: { ...string, examples: ['ES256'] },
    use: { ...string, examples: ['sig'] },
    crv: text('Of an EC or OKP key, like x.', { examples: ['P-256'] }),
    x: { ...string, examples: ['M7cRV3ZgsKQYNmcMOGCAJyRyVxQ1rGPBmvGIrA4qrXY'] },
    y: text('Of an EC key.', { examples: ['OMVBvJ3nQ0mfMNJhyKPYNhzLhYEEsSQ0O3Z2nwqjHYM'] }),
    n: text('Of an RSA key, like e.'),
    e: string,
  },
  ['kty', 'kid', 'alg', 'use'],
)

export const JWKS_OPERATION = operation({
  operationId: 'getKeys',
  tags: ['Tokens'],
  summary: 'Get the keys that verify access tokens',
  description:
    'A JSON Web Key Set (RFC 7517), without the envelope. Choose the key by `kid` in the header of the token. Fetch the set again when a token names a key that you do not have. Check `alg` (`ES256`, unless the operator chose another), `typ` (`at+jwt`), `iss` and `aud` (the public address of the service, unless the operator chose others) and `exp` (with 30 seconds for clocks that differ). The other claims are `sub` (the user’s id), `sid` (the session’s id), `jti`, `iat`, `email`, `name`, `role` and `amr` (RFC 8176; it has `mfa` after a login with a second factor).',
  security: [],
  response: {
    200: {
      description: 'The published keys.',
      headers: { 'Cache-Control': header('How long the keys may be cached.') },
      schema: named('KeySet', whole({ keys: { type: 'array', items: named('Key', KEY) } })),
    },
  },
})

export function jwksRoute(keys: Keys) {
  return async (_request: FastifyRequest, reply: FastifyReply) =>
    reply.header('Cache-Control', `public, max-age=${CACHE_SECONDS}`).send(keys.publicJwks())
}
