// The least work that a refresh could be: a Fastify server that answers each request after one
// `update … returning` with a prepared statement, over the same TLS and on the same engine as the service.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import Fastify from 'fastify'
import pg from 'pg'

const { DATA_DIR = '', DATABASE_URL, PORT, PLAIN_PORT } = process.env
const https = {
  cert: readFileSync(join(DATA_DIR, 'development-cert.pem')),
  key: readFileSync(join(DATA_DIR, 'development-key.pem')),
}
const update = DATABASE_URL ? openPostgres(DATABASE_URL) : openSqlite(join(DATA_DIR, 'login.db'))
const app = Fastify({ https })
app.post<{ Body: { id: number } }>('/*', ({ body }) => update(body.id))
await app.listen({ port: Number(PORT), host: '127.0.0.1' })
// Answers over plain HTTP once the HTTPS server listens, for a caller that does not trust the certificate.
await Fastify().listen({ port: Number(PLAIN_PORT), host: '127.0.0.1' })

function openSqlite(file: string) {
  const database = new DatabaseSync(file, { timeout: 1_000 })
  database.exec('pragma journal_mode = wal; pragma synchronous = full')
  const statement = database.prepare(
    'update bare_updates set used_at = ? where id = ? returning id, used_at',
  )
  return async (id: number) => statement.get(new Date().toISOString(), id)
}

function openPostgres(connectionString: string) {
  const pool = new pg.Pool({ connectionString, max: 10 })
  return async (id: number) => {
    const { rows } = await pool.query({
      name: 'update',
      text: 'update bare_updates set used_at = $1 where id = $2 returning id, used_at',
      values: [new Date().toISOString(), id],
    })
    return rows[0]
  }
}
