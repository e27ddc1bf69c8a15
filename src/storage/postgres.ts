// The server engine: a pool of connections, and the whole reservation of an attempt in one statement.
import { Kysely, PostgresDialect, type PostgresPoolClient, sql } from 'kysely'
import pg from 'pg'
import { type Engine, OPERATION_TIMEOUT_MS, repeat } from './engine.ts'
import type { Schema } from './schema.ts'
import type { Reservation, ScopeName, ThrottleScope } from './store.ts'
import { isNotLockedByAdministrator, momentsAt, refusal } from './throttle-rows.ts'
import { toTime } from './values.ts'

/** A login holds a connection for a few milliseconds; hashing, which holds none, is the bottleneck. */
const POOL_SIZE = 10
const CONNECT_TIMEOUT_MS = 1_000
/** Above the server's own deadlock_timeout, so that a deadlock is told from a long wait. */
const LOCK_TIMEOUT_MS = 1_200
/** Nobody waits for an answer yet, and a machine that starts many processes is slow. */
const MIGRATION_CONNECT_TIMEOUT_MS = 10_000
/** A change of a large table takes its time; a server that is gone is noticed by then. */
const MIGRATION_TIMEOUT_MS = 3_600_000

/** Any number that nothing else in this database locks. */
const HOUSEKEEPING_LOCK = 710_001

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const SERIALIZATION_FAILURE = '40001'
const DEADLOCK_DETECTED = '40P01'
const UNIQUE_VIOLATION = '23505'

export type PostgresOptions = {
  url: string
  /** Called when an idle connection breaks; the pool has already dropped it. */
  onConnectionLost: (error: Error) => void
}

export function openPostgres({ url, onConnectionLost }: PostgresOptions): Engine {
  const pool = new pg.Pool({
    ...connectionTo(url),
    max: POOL_SIZE,
    // The server stops its own work first; the client's limit is for a server that does not answer.
    statement_timeout: OPERATION_TIMEOUT_MS - 200,
    lock_timeout: LOCK_TIMEOUT_MS,
    idle_in_transaction_session_timeout: 5_000,
  })
  pool.on('error', onConnectionLost)
  const db = openDatabase(pool, OPERATION_TIMEOUT_MS)
  return {
    name: 'postgres',
    db,
    retrying: operation => repeat(operation, hasCode(SERIALIZATION_FAILURE, DEADLOCK_DETECTED)),
    async migrating(operation) {
      // One connection of its own, without the limits that a login needs.
      const migrationPool = new pg.Pool({
        ...connectionTo(url),
        max: 1,
        connectionTimeoutMillis: MIGRATION_CONNECT_TIMEOUT_MS,
      })
      migrationPool.on('error', onConnectionLost)
      const migrationDb = openDatabase(migrationPool, MIGRATION_TIMEOUT_MS)
      try {
        return await operation(migrationDb)
      } finally {
        await migrationDb.destroy()
      }
    },
    reserveAttempt: (scopes, email, now) =>
      repeat(
        () => reserveInOneStatement(db, scopes, email, now),
        // Two first attempts of one scope insert the same row: the later one finds it next time.
        hasCode(UNIQUE_VIOLATION, SERIALIZATION_FAILURE, DEADLOCK_DETECTED),
      ),
    isAlone: async trx => {
      const { rows } = await sql<{ alone: boolean }>`
        select pg_try_advisory_xact_lock(${sql.lit(HOUSEKEEPING_LOCK)}) as alone`.execute(trx)
      return rows[0]?.alone === true
    },
    readClock: async () => {
      const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
      return rows[0]?.now ?? null
    },
  }
}

function connectionTo(url: string): pg.PoolConfig {
  return {
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: 'login-service',
  }
}

function openDatabase(pool: pg.Pool, timeoutMs: number): Kysely<Schema> {
  return new Kysely<Schema>({
    dialect: new PostgresDialect({
      pool: {
        connect: () => connect(pool, timeoutMs),
        end: () => pool.end(),
        options: pool.options,
      },
    }),
  })
}

/**
 * A connection for one operation, which it gives up in time however many statements that takes. One
 * that broke, or still waits for an answer, must not serve anyone again.
 */
async function connect(pool: pg.Pool, timeoutMs: number): Promise<PostgresPoolClient> {
  const deadline = performance.now() + timeoutMs
  const client = await pool.connect()
  let isLost = false
  const onError = () => {
    isLost = true
  }
  // Nobody else listens between two statements: a connection that breaks then would end the process.
  client.on('error', onError)

  async function query(text: string, values: unknown[]): Promise<pg.QueryResult> {
    // The server has rolled back, or will when it finds nobody there. Asking it would take time, and
    // Kysely would report that failure in place of the one that led here.
    if (isLost && text === 'rollback') return NOTHING_TO_ROLL_BACK
    const limits = { query_timeout: Math.max(1, deadline - performance.now()) }
    try {
      return await client.query({ text, values, ...limits })
    } catch (error) {
      if (text === 'rollback' || !(error instanceof pg.DatabaseError)) isLost = true
      if (text === 'rollback') return NOTHING_TO_ROLL_BACK
      throw error
    }
  }
  return {
    // Kysely's type has a second form, for cursors, which is never used here.
    query: query as unknown as PostgresPoolClient['query'],
    release(discard) {
      client.off('error', onError)
      client.release(isLost || discard)
    },
  }
}

const NOTHING_TO_ROLL_BACK = { command: 'ROLLBACK', rowCount: 0, oid: 0, fields: [], rows: [] }

function hasCode(...codes: string[]) {
  return (error: unknown) => error instanceof pg.DatabaseError && codes.includes(error.code ?? '')
}

type ReservedScope = {
  verdict: Reservation['kind']
  scope: ScopeName
  key: string
  is_full: boolean
  refused_until: Date | null
  locked_user_id: string | null
}

/**
 * Existing rows are locked in the order of their keys, which also yields their newest versions; the
 * verdict is made over all scopes; then rows are changed or added only as it says. There is no
 * "on conflict": an upsert would act before the verdict of the other scopes is known.
 */
async function reserveInOneStatement(
  db: Kysely<Schema>,
  scopes: ThrottleScope[],
  email: string,
  now: Date,
): Promise<Reservation> {
  const at = momentsAt(now)
  const { rows } = await sql<ReservedScope>`
    with moment as (
      select ${at.now}::timestamptz as now, ${at.leaseEnd}::timestamptz as lease_end,
        ${at.windowEnd}::timestamptz as window_end, ${at.expiry}::timestamptz as expiry
    ),
    asked as (
      select * from unnest(
        ${scopes.map(s => s.key)}::text[], ${scopes.map(s => s.name)}::text[],
        ${scopes.map(s => s.emailDigest)}::text[], ${scopes.map(s => s.maxFailures)}::integer[]
      ) with ordinality as a (key, scope, email_digest, max_failures, position)
    ),
    existing as materialized (
      select t.* from login_throttle t
      where t.key = any (${scopes.map(s => s.key)}::text[]) order by t.key for update
    ),
    judged as (
      select e.*, coalesce(e.blocked_until > now, false) as is_blocked,
        e.blocked_until <= now or (e.blocked_until is null and e.window_ends_at <= now) as is_over,
        case when e.lease_ends_at <= now then e.pending else 0 end as abandoned
      from existing e, moment
    ),
    state as (
      select a.*, j.key is not null as is_present, coalesce(j.is_blocked, false) as is_blocked,
        j.blocked_until,
        case when j.is_over or j.key is null then null else j.window_ends_at end as window_ends_at,
        coalesce(case when j.is_over then 0 else j.failures end + j.abandoned, 0) as failures,
        coalesce(j.pending - j.abandoned, 0) as pending
      from asked a left join judged j using (key)
    ),
    verdict as (
      select case
        when bool_or(is_blocked or failures >= max_failures) then 'refused'
        when bool_or(failures + pending >= max_failures) then 'busy'
        else 'admitted' end as kind
      from state
    ),
    admitted as (
      update login_throttle t set failures = s.failures, pending = s.pending + 1,
        lease_ends_at = m.lease_end, window_ends_at = coalesce(s.window_ends_at, m.window_end),
        blocked_until = null, expires_at = m.expiry
      from state s, verdict v, moment m
      where t.key = s.key and v.kind = 'admitted'
    ),
    added as (
      insert into login_throttle
        (key, scope, email_digest, failures, pending, lease_ends_at, window_ends_at, expires_at)
      select s.key, s.scope, s.email_digest, 0, 1, m.lease_end, m.window_end, m.expiry
      from state s, verdict v, moment m
      where not s.is_present and v.kind = 'admitted' order by s.key
    ),
    blocked as (
      update login_throttle t set failures = s.failures, pending = s.pending,
        blocked_until = m.window_end, expires_at = m.expiry
      from state s, verdict v, moment m
      where t.key = s.key and v.kind = 'refused' and not s.is_blocked and s.failures >= s.max_failures
      returning t.scope
    ),
    locked as (
      update users set locked_until = m.window_end, locked_by = 'throttle', updated_at = m.now
      from moment m
      where email = ${email} and exists (select from blocked where scope = 'email')
        and ${isNotLockedByAdministrator(at.now)}
      returning id
    )
    select v.kind as verdict, s.scope, s.key,
      s.failures + s.pending >= s.max_failures as is_full,
      case when s.is_blocked then s.blocked_until
        when s.failures >= s.max_failures then m.window_end end as refused_until,
      (select id from locked) as locked_user_id
    from state s, verdict v, moment m order by s.position`.execute(db)

  const [first] = rows
  if (!first) throw new Error('a reservation names at least one scope')
  switch (first.verdict) {
    case 'admitted':
      return { kind: 'admitted' }
    case 'busy':
      return { kind: 'busy', key: rows.find(row => row.is_full)?.key ?? first.key }
    case 'refused':
      return refusal(
        rows.flatMap(row =>
          row.refused_until ? [{ scope: row.scope, blockedUntil: toTime(row.refused_until) }] : [],
        ),
        first.locked_user_id,
      )
  }
}
