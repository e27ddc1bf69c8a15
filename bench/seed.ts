// Inserts users in bulk without the store: a million users within minutes.
import { DatabaseSync } from 'node:sqlite'
import bcrypt from 'bcrypt'
import pg from 'pg'
import type { DatabaseConfig } from '../src/config/database.ts'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { LOGIN } from '../test/support/service.ts'
import { post } from './connection.ts'

export const PASSWORD = 'correct horse battery staple'
export const COST = 12
/** For measurements of everything but the hash. */
export const CHEAP_COST = 4

const USERS_AT_A_TIME = 10_000
const DAY_MS = 86_400_000

/** Users with an even number have a hash of `COST` or of the deployment's cost, the others one of `CHEAP_COST`. */
export function emailOf(index: number, cost: number = COST): string {
  return `user${2 * index + (cost === COST ? 0 : 1)}@example.com`
}

export function loginRequest(email: string, password = PASSWORD, moreHeaders = ''): Buffer {
  return post(LOGIN, { email, password }, moreHeaders)
}

/** Successful logins of this many different users, repeated without end. */
export function rightLogins(users: number, cost: number = COST): (index: number) => Buffer {
  const requests = Array.from({ length: users }, (_, user) => loginRequest(emailOf(user, cost)))
  return index => requests[index % users] ?? requests[0] ?? Buffer.alloc(0)
}

export type Growth = {
  from: number
  to: number
  sessionsEach: number
  cost?: number
  onProgress?: (users: number) => void
}

/** Adds the users from `from` to below `to`, with the same password, and sessions with one token each. */
export async function seedUsers(database: DatabaseConfig, growth: Growth): Promise<void> {
  const { from, to, cost = COST, onProgress } = growth
  const hashes = await Promise.all([cost, CHEAP_COST].map(cost => bcrypt.hash(PASSWORD, cost)))
  const { run, close } = await openForBulk(database)
  for (let first = from; first < to; first += USERS_AT_A_TIME) {
    const last = Math.min(first + USERS_AT_A_TIME, to) - 1
    await run(statements(database.engine, growth, hashes, first, last))
    onProgress?.(last + 1)
  }
  await close()
}

/**
 * Ids ascend within one call, which makes inserts fast, and are spread over the whole range, so that the
 * random ids of later logins fall anywhere in the index.
 */
function statements(
  engine: EngineName,
  { from, to, sessionsEach }: Growth,
  [hash, cheapHash]: string[],
  first: number,
  last: number,
): string[] {
  const hex = (value: string, digits: number) =>
    engine === 'sqlite'
      ? `printf('%0${digits}x', ${value})`
      : `lpad(to_hex((${value})::bigint), ${digits}, '0')`
  const spread = hex(`(i - ${from}) * 4294967295 / ${to - from}`, 8)
  const asUuid = engine === 'sqlite' ? '' : '::uuid'
  const uuid = (group: string) =>
    `(${spread} || '-0000-4' || ${hex(group, 3)} || '-8000-' || ${hex('i', 12)})${asUuid}`
  const now = `'${new Date().toISOString()}'`
  const nextWeek = `'${new Date(Date.now() + 7 * DAY_MS).toISOString()}'`
  const nextMonth = `'${new Date(Date.now() + 30 * DAY_MS).toISOString()}'`
  const rows = `with recursive n(i) as (select ${first} union all select i + 1 from n where i < ${last})`
  const five = `, five(k) as (select 0 union all select k + 1 from five where k < ${sessionsEach - 1})`
  const users = `insert into users (id, email, password_hash, name, created_at, updated_at) ${rows}
    select ${uuid('0')}, 'user' || i || '@example.com',
      case i % 2 when 0 then '${hash}' else '${cheapHash}' end, 'User ' || i, ${now}, ${now} from n`
  if (sessionsEach === 0) return [users]
  return [
    users,
    `insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at, expires_at, user_agent, ip)
    ${rows}${five} select ${uuid('k + 1')}, ${uuid('0')}, ${now}, ${now}, ${nextWeek}, ${nextMonth},
      'Mozilla/5.0', '192.0.2.1' from n, five order by i, k`,
    `insert into refresh_tokens (id, user_id, session_id, token, key_id, expires_at, created_at)
    ${rows}${five} select ${uuid('k + 16')}, ${uuid('0')}, ${uuid('k + 1')},
      ${spread} || ${hex('i', 16)} || ${hex('k', 40)}, 'seed', ${nextWeek}, ${now} from n, five order by i, k`,
  ]
}

/** A connection for bulk writes, without checks and syncs. */
export async function openForBulk(database: DatabaseConfig) {
  if (database.engine === 'sqlite') {
    const connection = new DatabaseSync(database.file)
    connection.exec('pragma synchronous = off; pragma cache_size = -1000000')
    return {
      async run(batch: string[]) {
        connection.exec(`begin immediate; ${batch.join(';')}; commit`)
      },
      async close() {
        connection.exec('pragma wal_checkpoint(truncate)')
        connection.close()
      },
    }
  }
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  // Turns off foreign key checks, which would take most of the time.
  await client.query("set session_replication_role = 'replica'; set synchronous_commit = off")
  return {
    async run(batch: string[]) {
      await client.query(`begin; ${batch.join(';')}; commit`)
    },
    async close() {
      // Autovacuum would do this within minutes.
      await client.query('vacuum analyze')
      await client.end()
    },
  }
}
