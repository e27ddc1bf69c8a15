// better-auth on Node's built-in SQLite, with bcrypt as its documentation shows.
import { createServer } from 'node:http'
import { DatabaseSync } from 'node:sqlite'
import bcrypt from 'bcrypt'
import { betterAuth } from 'better-auth'
import { getMigrations } from 'better-auth/db/migration'
import { toNodeHandler } from 'better-auth/node'

const { PORT, DATABASE_FILE = '', PASSWORD_HASH = '', USERS, RATE_LIMIT } = process.env
const database = new DatabaseSync(DATABASE_FILE)
database.exec('pragma journal_mode = wal')

const auth = betterAuth({
  database,
  secret: 'a secret of at least thirty-two characters',
  baseURL: `http://localhost:${PORT}`,
  telemetry: { enabled: false },
  rateLimit: { enabled: RATE_LIMIT === 'on' },
  emailAndPassword: {
    enabled: true,
    password: {
      hash: password => bcrypt.hash(password, 12),
      verify: ({ hash, password }) => bcrypt.compare(password, hash),
    },
  },
})

const { runMigrations } = await getMigrations(auth.options)
await runMigrations()
database.exec(`begin;
  with recursive n(i) as (select 0 union all select i + 1 from n where i < ${Number(USERS) - 1})
  insert or ignore into user (id, name, email, emailVerified, createdAt, updatedAt)
    select 'user' || i, 'User ' || i, 'user' || (2 * i) || '@example.com', 1, datetime(), datetime() from n;
  insert or ignore into account (id, accountId, providerId, userId, password, createdAt, updatedAt)
    select 'account' || id, id, 'credential', id, '${PASSWORD_HASH}', datetime(), datetime() from user;
  commit`)

createServer(toNodeHandler(auth)).listen(Number(PORT), '127.0.0.1')
