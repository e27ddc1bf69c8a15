// The settings that the service needs at the server, for each of its connections or for its role.
import { type Kysely, sql } from 'kysely'
import { SERVICE_OPERATION_TIMEOUT_MS } from '../sql/engine.ts'
import type { Schema } from '../sql/schema.ts'

/** The time limits in milliseconds; for the role, a shorter one is accepted too. */
function timeLimits(operationTimeoutMs: number): Record<string, number> {
  return {
    // Below the limit of the operation, which is for a server that does not answer.
    statement_timeout: operationTimeoutMs - 200,
    // Above the server's deadlock_timeout (1 s), so that a deadlock is not reported as a lock timeout.
    lock_timeout: operationTimeoutMs - 300,
    idle_in_transaction_session_timeout: 5_000,
  }
}

const PLAN_SETTINGS = {
  // One plan for all values of a statement: if the server chose a plan by the values, attempts at known and
  // unknown emails could take different times.
  plan_cache_mode: 'force_generic_plan',
  // Without statistics, which a young table does not have yet, the server would read it whole, or combine
  // the right index with the whole of another.
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  // Compiling a plan takes longer than any of these statements.
  jit: 'off',
}

/** The settings as options in the address: if the server rejects one, the connection fails. */
export function withSettings(url: string, operationTimeoutMs: number): string {
  const connection = new URL(url)
  const given = connection.searchParams.getAll('options').at(-1) ?? process.env.PGOPTIONS ?? ''
  const own = Object.entries({ ...timeLimits(operationTimeoutMs), ...PLAN_SETTINGS })
  const options = [given, ...own.map(([name, value]) => `-c ${name}=${value}`)]
  connection.searchParams.set('options', options.join(' ').trim())
  return connection.toString()
}

/** The statements that give the role its missing settings, where a pooler does not let connections set them. */
export async function listMissingSettings(db: Kysely<Schema>): Promise<string[]> {
  const limits = timeLimits(SERVICE_OPERATION_TIMEOUT_MS)
  const { rows } = await sql<{ role: string; name: string; setting: string }>`
    select quote_ident(session_user) as role, name, setting from pg_settings`.execute(db)
  const settings = new Map(rows.map(({ name, setting }) => [name, setting]))
  const isMissing = ([name, value]: [string, string | number]) => {
    const setting = settings.get(name)
    if (typeof value === 'string') return setting !== value
    return !(Number(setting) > 0 && Number(setting) <= value)
  }
  return Object.entries({ ...limits, ...PLAN_SETTINGS })
    .filter(isMissing)
    .map(([name, value]) => `alter role ${rows[0]?.role} set ${name} = ${value}`)
}
