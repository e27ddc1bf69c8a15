// The settings that the service needs at the server. A connection sets them for itself. A pooler lends a connection of
// the server for one transaction, so that a setting would be left to others: behind one, the role must have them.
import type pg from 'pg'
import { UnusableDatabase } from '../../domain/migration.ts'
import { SERVICE_OPERATION_TIMEOUT_MS } from '../sql/engine.ts'

/** As the server shows them, in SQL. */
function settingsFor(operationTimeoutMs: number) {
  return {
    // An answered commit survives a crash of the server. Other values than "off" are left to the operator.
    synchronous_commit: `coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on')`,
    // Below the limit of the operation, which is for a server that does not answer.
    statement_timeout: `'${operationTimeoutMs - 200}ms'`,
    // Above the server's deadlock_timeout (1 s), so that a deadlock is not reported as a lock timeout.
    lock_timeout: `'${operationTimeoutMs - 300}ms'`,
    // How long an instance that hangs holds the locks of a transaction. Others wait a little longer, and so get them.
    idle_in_transaction_session_timeout: `'${operationTimeoutMs - 600}ms'`,
    // One plan for all values of a statement: if the server chose a plan by the values, attempts at known and
    // unknown emails could take different times.
    plan_cache_mode: `'force_generic_plan'`,
    // Without statistics, which a young table does not have yet, the server would read it whole, or combine
    // the right index with the whole of another.
    enable_seqscan: `'off'`,
    enable_bitmapscan: `'off'`,
    // Compiling a plan takes longer than any of these statements.
    jit: `'off'`,
  }
}

const ROLE_SETTINGS: Record<string, string> = settingsFor(SERVICE_OPERATION_TIMEOUT_MS)

/**
 * A pooler tells its clients a process id of its own. Every role may call these functions. The name of a WAL file begins
 * with the timeline; not every server tells it, so it is read only if it is needed.
 */
function statementFor(operationTimeoutMs: number): string {
  const changes = Object.entries(settingsFor(operationTimeoutMs)).map(
    ([name, value]) => `case when not is_pooled then set_config('${name}', ${value}, false)
      when current_setting('${name}') <> ${ROLE_SETTINGS[name]}
        then format('alter role %I set ${name} = %L', session_user, ${ROLE_SETTINGS[name]}) end`,
  )
  return `
    select is_pooled, current_setting('transaction_read_only') = 'on' as is_read_only,
      case when $2 and not pg_is_in_recovery()
        then ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int else 0 end as timeline,
      array_remove(array[${changes.join()}], null) as changes
    from (select pg_backend_pid() <> $1 as is_pooled) as connection`
}

export type ServerState = { isPooled: boolean; isReadOnly: boolean; timeline: number }

/** Sets what the new connection needs. The timeline is 0 if it is not asked for. */
export async function setUp(
  client: pg.ClientBase,
  operationTimeoutMs: number,
  readsTimeline: boolean,
): Promise<ServerState> {
  const { rows } = await client.query(statementFor(operationTimeoutMs), [
    Object(client).processID,
    readsTimeline,
  ])
  const { is_pooled: isPooled, is_read_only: isReadOnly, timeline, changes } = rows[0]
  if (isPooled && changes.length > 0) {
    throw new UnusableDatabase(
      `a pooler is in between, so its role must have the settings that the service needs: run "${changes.join('; ')}", then let the pooler open new connections (PgBouncer: RECONNECT)`,
    )
  }
  return { isPooled, isReadOnly, timeline }
}
