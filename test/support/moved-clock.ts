// Clocks that a test moves: of the machine as one process sees it, and of a PostgreSQL database.
import { randomUUID } from 'node:crypto'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestDatabase } from './engines.ts'

const MOVED_DATE = new URL('moved-date.ts', import.meta.url).href

/** Keeps a file in the folder. */
export async function createMovedClock(folder: string, byMs: number) {
  const file = join(folder, `moved-clock-${randomUUID()}`)
  async function set(text: string): Promise<void> {
    // A process never reads a file that is half written.
    await writeFile(`${file}.new`, text)
    await rename(`${file}.new`, file)
  }
  await set(String(byMs))
  return {
    /** The environment of a process whose clock is moved. */
    env: { NODE_OPTIONS: `--import=${MOVED_DATE}`, MOVED_CLOCK_FILE: file },
    move: (ms: number) => set(String(ms)),
    /** The clock stands still until it is moved. */
    freeze: () => set(`=${Date.now()}`),
  }
}

/** As after a failover to a server with another clock: all connections break. */
export async function moveDatabaseClock(database: TestDatabase, byMs: number): Promise<void> {
  await replaceDatabaseClock(
    database,
    `select pg_catalog.clock_timestamp() + interval '${byMs} milliseconds'`,
  )
  await endConnections(database)
}

/** Every reading of the database's clock fails. */
export async function breakDatabaseClock(database: TestDatabase): Promise<void> {
  await replaceDatabaseClock(database, `select 'broken'::timestamptz`)
  await endConnections(database)
}

/** New connections find a function of the same name before the server's own. */
export async function replaceDatabaseClock({ rows }: TestDatabase, reading: string): Promise<void> {
  await rows(`create or replace function public.clock_timestamp() returns timestamptz language plpgsql
    as $$ begin return (${reading}); end $$`)
  await rows(`do $$ begin execute format('alter database %I set search_path = public, pg_catalog',
    current_database()); end $$`)
}

async function endConnections({ rows }: TestDatabase): Promise<void> {
  await rows(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`)
}
