// An example of a service that accepts the access tokens: it verifies them with the published keys, without a
// call to the login service for each request.
//
//   NODE_EXTRA_CA_CERTS=data/development-cert.pem npm exec -- node examples/resource-server.ts
import Fastify, { type FastifyRequest } from 'fastify'
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'

const issuer = process.env.ISSUER ?? 'https://localhost:8443'
const audience = process.env.AUDIENCE ?? issuer
const jwksUrl = process.env.JWKS_URL ?? `${issuer}/.well-known/jwks.json`
// Fetches the keys again when a token has an unknown key id, at most twice a minute.
const keys = createRemoteJWKSet(new URL(jwksUrl))
/** The keys could not be fetched, which is not the token's fault. */
const NO_KEYS = ['ERR_JWKS_TIMEOUT', 'ERR_JOSE_GENERIC']

const app = Fastify()

app.get('/me', async (request, reply) => {
  const claims = await verify(request)
  if (!claims) {
    return reply.code(401).header('WWW-Authenticate', 'Bearer').send({ error: 'log in first' })
  }
  return { id: claims.sub, email: claims.email, role: claims.role }
})

/** Requires this issuer, this audience, this type of token and one of these algorithms. */
async function verify({ headers }: FastifyRequest) {
  const [scheme = '', token = ''] = (headers.authorization ?? '').split(' ', 2)
  if (scheme.toLowerCase() !== 'bearer') return null
  try {
    const { payload } = await jwtVerify(token, keys, {
      issuer,
      audience,
      typ: 'at+jwt',
      algorithms: ['ES256', 'EdDSA', 'RS256'],
      clockTolerance: 30,
    })
    return payload
  } catch (error) {
    if (error instanceof errors.JOSEError && !NO_KEYS.includes(error.code)) return null
    throw error
  }
}

const address = await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 3000) })
process.stdout.write(`listening on ${address}\n`)
