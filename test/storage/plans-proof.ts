// No statement of a request, of the purge or of a command on one user may read a whole table. The plans are
// those of the statements that the drivers really got. And none of these may lock several rows in any order, which
// could end in a deadlock.
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import pg from 'pg'
import { type OperationName, wrapMethods } from '../../src/domain/operations.ts'
import { setUp } from '../../src/storage/postgres/settings.ts'
import { type EngineName, SERVICE_OPERATION_TIMEOUT_MS } from '../../src/storage/sql/engine.ts'
import { openTestStore, type TestDatabase } from '../support/engines.ts'
import { useEverything } from '../support/every-statement.ts'

/** Operations on all users or on the schema, which may take time in proportion to the rows. */
const EXEMPT: OperationName[] = [
  'users.count',
  'users.countHashCosts',
  'secondFactors.countUsers',
  'secondFactors.countByKey',
  'secondFactors.countByDomain',
  'migrations.apply',
  'migrations.list',
]

/** Lists of users by these conditions must use this index: another one would find most users. */
const LISTS: [statement: RegExp, index: string][] = [
  [/from "users" where .* locked_until is not null .* limit/s, 'users_locked'],
]

const LARGE_TABLES = [
  ...['users', 'sessions', 'ended_sessions', 'refresh_tokens', 'login_codes', 'devices'],
  ...['login_throttle', 'admin_tokens', 'audit_events', 'second_factors', 'recovery_codes'],
  'audit_actors',
]

const STATEMENT = /^\s*(select|insert|update|delete|with)\b/i

/** PostgreSQL has no statistics of young tables, and keeps plans that it made when they were empty. */
export async function provePlans(engine: EngineName, rowCount: number): Promise<void> {
  const { store, database } = await openTestStore(engine)
  const young = engine === 'postgres' ? (await openTestStore(engine)).database : null

  test(`no statement reads a whole table of ${rowCount} rows`, async () => {
    await fillTables(database, rowCount)
    // PostgreSQL does this by itself within minutes; the service never does it for SQLite.
    if (young) for (const table of LARGE_TABLES) await database.rows(`analyze ${table}`)
    const names = Object.entries(store).flatMap(([part, methods]) =>
      Object.keys(methods).map(method => `${part}.${method}` as OperationName),
    )
    const uncalled = new Set(names)
    const watched = wrapMethods(store, (name, operation) => (...values) => {
      uncalled.delete(name)
      return operation(...values)
    })
    const statements = await sentBy(engine, () => useEverything(watched, database))
    const missing = [...uncalled].filter(name => !EXEMPT.includes(name))
    assert.deepEqual(missing, [], 'every operation was called')
    assert.ok(statements.length > 30, `${statements.length} statements`)
    assert.deepEqual(await findScans(database, statements), [])
    assert.deepEqual(statements.filter(locksInAnyOrder), [], 'locks have an order')
    if (!young) return
    assert.deepEqual(await findScans(young, statements), [], 'of empty tables')
    await fillTables(young, rowCount)
    assert.deepEqual(await findScans(young, statements), [], 'of young tables')
  })
}

/** Of a query that locks, the last one before each lock: neither is sorted, nor names one row. A purge waits for no lock. */
function locksInAnyOrder(statement: string): boolean {
  const parts = statement.split(/\bfor (?:no key )?update\b(?! skip locked)/).slice(0, -1)
  return parts
    .map(part => part.slice(part.lastIndexOf('select')))
    .some(query => !/order by [\w", ]+$/.test(query) && !/where \(?"?(id|email)"? = \$/.test(query))
}

async function findScans(database: TestDatabase, statements: string[]): Promise<string[]> {
  const find = database.config.engine === 'sqlite' ? scansInSqlite : scansInPostgres
  const plans = await plansOf(database, statements)
  return [...plans].flatMap(([statement, plan]) => {
    const unused = LISTS.filter(
      ([list, index]) => list.test(statement) && !JSON.stringify(plan).includes(index),
    )
    const found = [...find(plan), ...unused.map(([, index]) => `without ${index}`)]
    return found.map(scan => `${scan}: ${statement.replaceAll(/\s+/g, ' ')}`)
  })
}

/** The different statements that the engine's driver got during the action. */
async function sentBy(engine: EngineName, action: () => Promise<void>): Promise<string[]> {
  const sent = new Set<string>()
  const [prototype, method]: [object, string] =
    engine === 'sqlite' ? [DatabaseSync.prototype, 'prepare'] : [pg.Client.prototype, 'query']
  const original = Reflect.get(prototype, method)
  Reflect.set(prototype, method, function (this: unknown, ...parameters: unknown[]) {
    const [query] = parameters
    const text = typeof query === 'string' ? query : Object(query).text
    if (STATEMENT.test(text)) sent.add(text)
    return Reflect.apply(original, this, parameters)
  })
  try {
    await action()
  } finally {
    Reflect.set(prototype, method, original)
  }
  return [...sent]
}

type Rows = Record<string, unknown>[]

/** For unknown parameters, and with the settings that the service gives its connections. */
async function plansOf({ config, rows }: TestDatabase, statements: string[]) {
  const plans = new Map<string, Rows>()
  if (config.engine === 'sqlite') {
    for (const each of statements) plans.set(each, await rows(`explain query plan ${each}`))
    return plans
  }
  // A connection per statement would take longer than the plans.
  const client = new pg.Client(config.url)
  await client.connect()
  await setUp(client, SERVICE_OPERATION_TIMEOUT_MS, false)
  for (const each of statements) {
    plans.set(each, (await client.query(`explain (generic_plan, format json) ${each}`)).rows)
  }
  await client.end()
  return plans
}

/**
 * SEARCH reads a part of an index; SCAN reads a whole index or table. What comes after a table at the same level is read
 * for each of its rows, so rows that are given as JSON must come first.
 */
function scansInSqlite(plan: Rows): string[] {
  const tables = LARGE_TABLES.join('|')
  const [isScan, isLarge] = [
    new RegExp(`^SCAN (${tables})\\b`),
    new RegExp(`^SEARCH (${tables})\\b`),
  ]
  const found: string[] = []
  const joined = new Set<unknown>()
  for (const { detail, parent } of plan) {
    const text = String(detail)
    if (isScan.test(text) || (joined.has(parent) && text.startsWith('SCAN json_each')))
      found.push(text)
    if (isLarge.test(text)) joined.add(parent)
  }
  return found
}

type PlanNode = {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Index Cond'?: string
  Filter?: string
  Plans?: PlanNode[]
}

function scansInPostgres([row]: Rows): string[] {
  const [plan] = Object(row)['QUERY PLAN']
  const found: string[] = []
  const look = (node: PlanNode, isLimited = false, table?: string, parent?: PlanNode) => {
    const name = node['Relation Name'] ?? table
    const isSequential = node['Node Type'] === 'Seq Scan'
    const condition = node['Index Cond'] ?? ''
    // Such a scan reads as many rows as the limit says.
    const isStopped = parent?.['Node Type'] === 'Limit' && node.Filter === undefined
    // A condition without an equality, such as on a time, may be true for most rows.
    const isWholeIndex =
      /^(Index|Index Only|Bitmap Index) Scan$/.test(node['Node Type']) &&
      !/ = |IS NULL/.test(condition) &&
      !(isLimited && (isStopped || condition !== ''))
    if ((isSequential || isWholeIndex) && LARGE_TABLES.includes(name ?? '')) {
      found.push(`${node['Node Type']} ${node['Index Name'] ?? name}`)
    }
    // A sort reads all of its rows, even below a limit.
    const limited = node['Node Type'] === 'Limit' || (isLimited && node['Node Type'] !== 'Sort')
    for (const inner of node.Plans ?? []) look(inner, limited, name, node)
  }
  look(plan.Plan)
  return found
}

/** Inserts this many rows into each of the large tables; most are live. PostgreSQL has no statistics of them. */
async function fillTables({ config, rows }: TestDatabase, count: number): Promise<void> {
  const isSqlite = config.engine === 'sqlite'
  const seconds = Date.now() / 1000
  const hex = (value: string, digits: number) =>
    isSqlite
      ? `printf('%0${digits}x', ${value})`
      : `lpad(to_hex((${value})::bigint), ${digits}, '0')`
  const uuid = (kind: string, value = 'i') =>
    `(${hex(`(${value}) * 2654435761 % 4294967296`, 8)} || '-${kind}-4000-8000-' || ${hex(value, 12)})${isSqlite ? '' : '::uuid'}`
  const digest = (prefix: string) =>
    `${hex(`i * 2654435761 % 4294967296`, 8)} || '${prefix}' || ${hex('i', 55)}`
  const at = (offsetSeconds: string) =>
    isSqlite
      ? `strftime('%Y-%m-%dT%H:%M:%fZ', ${seconds} + (${offsetSeconds}), 'unixepoch')`
      : `to_timestamp(${seconds} + (${offsetSeconds}))`
  const day = 86_400
  const series = `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})`
  const share = (percent: number, value: string) =>
    `case when i % 100 < ${percent} then ${value} end`
  const statements = [
    `insert into users (id, email, password_hash, name, role, is_active, locked_until) ${series}
      select ${uuid('0000')}, 'user' || i || '@example.com', 'a hash', 'User',
        case when i % 100 = 0 then 'admin' else 'user' end, i % 100 <> 1,
        ${share(2, at('900'))} from n`,
    `insert into devices (id, user_id, token, last_used_at, expires_at, user_agent) ${series}
      select ${uuid('0003')}, ${uuid('0000')}, ${digest('d')}, ${at('0')}, ${at(`i % ${180 * day}`)}, '' from n`,
    `insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at, expires_at, ended_at,
        cookie_digest, device_id, user_agent, ip) ${series}
      select ${uuid('0001')}, ${uuid('0000')}, ${at(`-(i % ${day})`)}, ${at(`-(i % ${day})`)},
        ${at(`i % ${7 * day}`)}, ${at(`i % ${30 * day}`)}, ${share(10, at(`-(i % ${day})`))},
        ${share(50, digest('c'))}, ${share(50, uuid('0003'))}, '', '' from n`,
    `insert into ended_sessions (id, ended_at) ${series}
      select ${uuid('0004')}, ${at(`-(i % ${day})`)} from n`,
    `insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at) ${series}
      select ${uuid('0002')}, ${uuid('0000')}, ${uuid('0001')}, ${digest('t')}, 'k', ${at('0')},
        ${at(`i % ${7 * day}`)} from n`,
    `insert into login_codes (digest, session_id, callback, challenge, expires_at) ${series}
      select ${digest('l')}, ${uuid('0001')}, '', substr(${digest('x')}, 1, 43), ${at(`i % ${7 * day}`)} from n`,
    `insert into login_throttle (key, scope, email_digest, failures, pending, lease_ends_at,
        window_ends_at, expires_at) ${series}
      select ${digest('k')}, 'email', ${digest('e')}, 1, 0, ${at('0')}, ${at('900')}, ${at('i % 900')} from n`,
    `insert into second_factors (id, user_id, kind, secret) ${series}
      select ${uuid('0005')}, ${uuid('0000')}, 'totp', 'key.secret' from n`,
    `insert into recovery_codes (user_id, digest, used_at) ${series}
      select ${uuid('0000')}, ${digest('r')}, ${share(10, at('0'))} from n`,
    `insert into admin_tokens (name, digest, role, created_at, expires_at) ${series}
      select 'token' || i, ${digest('a')}, 'read', ${at('0')}, ${at(`i % ${90 * day}`)} from n`,
    `insert into audit_events (at, actor_kind, actor, host, action, target, target_id) ${series}
      select ${at('0')}, 'user', 'admin', 'machine', 'user.added', 'user' || i || '@example.com', ${uuid('0000')} from n`,
    `insert into audit_actors (event_id, user_id, once)
      select id, target_id, 'once ' || id from audit_events where target like 'user%'`,
  ]
  // It would make statistics.
  for (const table of isSqlite ? [] : LARGE_TABLES) {
    await rows(`alter table ${table} set (autovacuum_enabled = off)`)
  }
  for (const statement of statements) await rows(statement)
}
