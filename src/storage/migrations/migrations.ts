// All migrations, applied in the order of their names. A migration that was released is never changed.
import type { QueryExecutorProvider } from 'kysely'
import * as initial from './0100-initial.ts'
import type { ColumnTypes } from './column-types.ts'

type Up = (db: QueryExecutorProvider, column: ColumnTypes) => Promise<void>

/** Versions before 0.4 had others, whose names are before these. */
export const MIGRATIONS: Record<string, { up: Up }> = { '0100-initial': initial }
