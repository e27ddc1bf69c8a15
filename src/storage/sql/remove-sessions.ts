// Removes a batch of sessions for the purge and the deletion of a user: first their refresh tokens, then the
// sessions that have no tokens left. A cascade from sessions to tokens could not be bounded.
import { type RawBuilder, sql, type Transaction } from 'kysely'
import { isAmong, lockClause } from './dialect.ts'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'

/** Small enough that a batch in SQLite, for which all other operations wait, takes a few milliseconds. */
const SIZES = { sqlite: { sessions: 20, tokens: 50 }, postgres: { sessions: 250, tokens: 500 } }

type Choice = {
  condition: RawBuilder<unknown>
  /** An indexed column, so that the batch is found without reading other sessions. */
  orderBy: 'user_id' | 'ended_at' | 'purge_at'
  /** Whether to wait for sessions that another transaction has locked, or to skip them. */
  mustWait: boolean
}

type ChosenSession = {
  id: string
  position: Date | string
  idle_expires_at: Date | string
}

/** Chooses and locks a batch of sessions. */
export async function chooseSessions(
  engine: Engine,
  trx: Transaction<Schema>,
  { condition, orderBy, mustWait }: Choice,
): Promise<ChosenSession[]> {
  // Many sessions may share one purge_at; its index has the id too.
  const order = orderBy === 'purge_at' ? sql`purge_at, id` : sql.ref(orderBy)
  const { rows } = await sql<ChosenSession>`
    select id, ${sql.ref(orderBy)} as position, idle_expires_at from sessions where ${condition}
    order by ${order} limit ${sql.lit(SIZES[engine.name].sessions)}
    ${lockClause(engine, mustWait)}`.execute(trx)
  return rows
}

/** Sessions without tokens are removed, or marked so that they are not chosen again. Returns how many. */
export async function clearSessions(
  engine: Engine,
  trx: Transaction<Schema>,
  chosen: { id: string }[],
  finish: 'remove' | 'mark',
) {
  if (chosen.length === 0) return { refreshTokens: 0, sessions: 0 }
  const given = sql.join(chosen.map(({ id }) => id))
  const tokens = sql`select id from refresh_tokens where session_id in (${given})
    limit ${sql.lit(SIZES[engine.name].tokens)}`
  const { numAffectedRows } =
    await sql`delete from refresh_tokens where ${isAmong(engine.name, 'id', tokens)}`.execute(trx)
  const change =
    finish === 'remove' ? sql`delete from sessions` : sql`update sessions set has_tokens = ${0}`
  // "offset 0" keeps PostgreSQL from joining the tables: it looks up each session in the index.
  const { rows } = await sql`${change} where id in (${given})
    and not exists (select 1 from refresh_tokens
      where refresh_tokens.session_id = sessions.id limit 1 offset 0) returning id`.execute(trx)
  return { refreshTokens: Number(numAffectedRows), sessions: rows.length }
}
