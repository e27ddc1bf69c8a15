// Loaded before a process by `--import`: a version of the service with one more migration.
import { sql } from 'kysely'
import { MIGRATIONS } from '../../src/storage/migrations/migrations.ts'

export const MADE_UP = '9000-made-up'

/** The environment of a process of that version. */
export const NEXT_VERSION = { NODE_OPTIONS: `--import=${import.meta.url}` }

// A test that imports this file keeps the migrations of this version.
if (process.env.NODE_OPTIONS === NEXT_VERSION.NODE_OPTIONS) {
  MIGRATIONS[MADE_UP] = {
    async up(db) {
      for (const table of ['users', 'unknown_user', 'sessions', 'login_throttle']) {
        await sql`alter table ${sql.table(table)} add column made_up text default 'x'`.execute(db)
      }
    },
  }
}
