import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { openTestStore } from '../../../test/engines.ts'
import { until } from '../../../test/process.ts'

const SESSIONS = 5_000
/** A batch has 250 sessions; the last one is empty. */
const BATCHES = SESSIONS / 250 + 1

test('a purge reads a session from before the migration once, also while an old snapshot is open', async () => {
  const { store, database } = await openTestStore('postgres')
  if (database.config.engine !== 'postgres') throw new Error('not PostgreSQL')
  await database.rows(`with owner as (
      insert into users (id, email, password_hash, name)
      values (gen_random_uuid(), 'owner@example.com', 'a hash', 'Owner') returning id
    )
    insert into sessions (id, user_id, last_used_at, idle_expires_at, expires_at, user_agent, ip)
    select gen_random_uuid(), id, now(), now() + interval '1 day', now() + interval '1 day', '', ''
    from owner, generate_series(1, ${SESSIONS})`)
  const snapshot = new pg.Client(database.config.url)
  await snapshot.connect()
  try {
    await snapshot.query('begin isolation level repeatable read; select from users')
    while (!(await store.maintenance.purge(new Date()))?.isDone);
    // The server publishes the counters of a connection at the latest when it ends.
    await store.close()
    let read = 0
    await until(async () => {
      const [index] = await database.rows(
        "select * from pg_stat_user_indexes where indexrelname = 'sessions_purge_at'",
      )
      read = Number(index?.idx_tup_read)
      return Number(index?.idx_scan) >= BATCHES
    })
    assert.ok(read >= SESSIONS && read < 2 * SESSIONS, `${read} entries of the index`)
  } finally {
    await snapshot.end()
  }
})
