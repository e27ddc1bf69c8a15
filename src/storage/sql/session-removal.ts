// Removes sessions with a bounded number of rows: first their refresh tokens, and a session only once
// it has none left, so that no cascade is longer than its batch.
import { type Expression, type RawBuilder, sql, type Transaction } from 'kysely'
import type { Engine, EngineName } from './engine.ts'
import type { Schema } from './schema.ts'

/** Few enough that SQLite, whose statements hold the event loop, is done within some milliseconds. */
const SIZES = { sqlite: { sessions: 20, tokens: 50 }, postgres: { sessions: 250, tokens: 500 } }

export type Cleared = {
  refreshTokens: number
  /** Sessions that have no tokens any more, and were removed or marked. */
  sessions: { id: string }[]
  /** All that were chosen. */
  chosen: { id: string; position: Date | string }[]
}

type Choice = {
  which: RawBuilder<unknown>
  /** An indexed column, so that the first ones are found without a look at the others. */
  orderBy: 'user_id' | 'ended_at' | 'idle_expires_at'
  /** What becomes of those without tokens: they go, or are marked so that they are not chosen again. */
  finish: 'remove' | 'mark'
  /** Whether to wait for sessions that are being used; otherwise they are left for later. */
  mustWait: boolean
}

export async function clearSessions(
  engine: Engine,
  trx: Transaction<Schema>,
  { which, orderBy, finish, mustWait }: Choice,
): Promise<Cleared> {
  const size = SIZES[engine.name]
  const { rows: chosen } = await sql<{ id: string; position: Date | string }>`
    select id, ${sql.ref(orderBy)} as position from sessions where ${which}
    order by ${sql.ref(orderBy)} limit ${sql.lit(size.sessions)}
    ${lockRows(engine, mustWait)}`.execute(trx)
  if (chosen.length === 0) return { refreshTokens: 0, sessions: [], chosen }

  const ids = chosen.map(({ id }) => id)
  const { numDeletedRows } = await trx
    .deleteFrom('refresh_tokens')
    .where(
      isAmong(
        engine.name,
        'id',
        trx
          .selectFrom('refresh_tokens')
          .select('id')
          .where('session_id', 'in', ids)
          .limit(sql.lit(size.tokens)),
      ),
    )
    .executeTakeFirstOrThrow()
  // With an offset PostgreSQL asks for each session, by the index, and does not join the tables.
  const isBare = sql<boolean>`not exists (select 1 from refresh_tokens
    where refresh_tokens.session_id = sessions.id limit 1 offset 0)`
  const sessions =
    finish === 'remove'
      ? await trx
          .deleteFrom('sessions')
          .where('id', 'in', ids)
          .where(isBare)
          .returning('id')
          .execute()
      : await trx
          .updateTable('sessions')
          .set({ has_tokens: 0 })
          .where('id', 'in', ids)
          .where(isBare)
          .returning('id')
          .execute()
  return { refreshTokens: Number(numDeletedRows), sessions, chosen }
}

/**
 * Rows by the values that a query chooses. PostgreSQL may join the two by reading the whole table; to
 * look the values of an array up by the index is the only way that it has.
 */
export function isAmong(engine: EngineName, id: string, chosen: Expression<unknown>) {
  return engine === 'postgres'
    ? sql<boolean>`${sql.ref(id)} = any (array(${chosen}))`
    : sql<boolean>`${sql.ref(id)} in (${chosen})`
}

/** SQLite has one writer. */
export function lockRows({ name }: Engine, mustWait: boolean) {
  if (name === 'sqlite') return sql``
  return mustWait ? sql`for update` : sql`for update skip locked`
}
