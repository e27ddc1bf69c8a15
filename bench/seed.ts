// Inserts users in bulk without the store, and makes their logins.
import { randomUUID } from 'node:crypto'
import bcrypt from 'bcrypt'
import { post } from './connection.ts'
import type { Database } from './database.ts'

export const PASSWORD = 'correct horse battery staple'
export const COST = 12
/** For measurements of everything but the hash. */
export const CHEAP_COST = 4

const USERS_AT_A_TIME = 1_000

/** Users with an even number have a hash of `COST` or of the deployment's cost, the others one of `CHEAP_COST`. */
export function emailOf(index: number, cost: number = COST): string {
  return `user${2 * index + (cost === COST ? 0 : 1)}@example.com`
}

export function loginRequest(email: string, password = PASSWORD, moreHeaders = ''): Buffer {
  return post('/api/v1/auth/login', { email, password }, moreHeaders)
}

/** Successful logins of this many different users, repeated without end. */
export function rightLogins(users: number, cost: number = COST): (index: number) => Buffer {
  const requests = Array.from({ length: users }, (_, user) => loginRequest(emailOf(user, cost)))
  return index => requests[index % users] ?? requests[0] ?? Buffer.alloc(0)
}

/** Adds this many users of each cost, with the same password. */
export async function seedUsers({ config, run }: Database, users: number, cost: number) {
  const [hash, cheapHash] = await Promise.all([cost, CHEAP_COST].map(c => bcrypt.hash(PASSWORD, c)))
  const now = new Date().toISOString()
  const rows = Array.from({ length: 2 * users }, (_, i) => {
    const passwordHash = i % 2 === 0 ? hash : cheapHash
    return `('${randomUUID()}', 'user${i}@example.com', '${passwordHash}', 'User ${i}', '${now}', '${now}')`
  })
  while (rows.length > 0) {
    const values = rows.splice(0, USERS_AT_A_TIME).join(', ')
    const columns = 'id, email, password_hash, name, created_at, updated_at'
    await run(`insert into users (${columns}) values ${values}`)
  }
  // Autovacuum would do this within minutes.
  if (config.engine === 'postgres') await run('vacuum analyze')
}
