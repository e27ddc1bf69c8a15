// An example of a service that accepts the access tokens, without a call to the login service for each request.
//
//   NODE_EXTRA_CA_CERTS=data/development-cert.pem npm exec -- node examples/resource-server.ts
import Fastify from 'fastify'
import { createVerifier } from './verifier.js'

const { ISSUER: issuer = 'https://localhost:8443', PORT = '3000' } = process.env
const { AUDIENCE: audience = issuer, LOGIN_URL: address = issuer } = process.env
const { verify } = createVerifier(issuer, { audience, address })

const app = Fastify()

app.get('/me', async ({ headers }, reply) => {
  const [scheme = '', token = ''] = (headers.authorization ?? '').split(' ', 2)
  const claims = scheme.toLowerCase() === 'bearer' ? await verify(token) : null
  if (!claims) {
    return reply.code(401).header('WWW-Authenticate', 'Bearer').send({ error: 'log in first' })
  }
  return { id: claims.sub, email: claims.email, role: claims.role }
})

const url = await app.listen({ host: '127.0.0.1', port: Number(PORT) })
process.stdout.write(`listening on ${url}\n`)
