// The least that a server of this kind can do with a request: read its JSON, answer a constant.
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
// Tells that the other one listens, to whoever does not trust its certificate.
await Fastify().listen({ port: Number(PLAIN_PORT), host: '127.0.0.1' })
