// The least work that a Fastify server can do for a request: parse its JSON and answer a constant.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import Fastify from 'fastify'

const { DATA_DIR = '', PORT, PLAIN_PORT } = process.env
const https = {
  cert: readFileSync(join(DATA_DIR, 'development-cert.pem')),
  key: readFileSync(join(DATA_DIR, 'development-key.pem')),
}
const app = Fastify({ https })
app.post('/*', async () => ({ hello: 'world' }))
await app.listen({ port: Number(PORT), host: '127.0.0.1' })
// Answers over plain HTTP once the HTTPS server listens, for a caller that does not trust the certificate.
await Fastify().listen({ port: Number(PLAIN_PORT), host: '127.0.0.1' })
