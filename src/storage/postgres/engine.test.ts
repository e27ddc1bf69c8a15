import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { sql } from 'kysely'
import { createTestDatabase } from '../../../test/support/engines.ts'
import { until } from '../../../test/support/process.ts'
import { startWire } from '../../../test/support/wire.ts'
import { prepare, run } from '../sql/prepared.ts'
import { openPostgres } from './engine.ts'

/** Longer than any operation takes on a busy machine. */
const PATIENT_MS = 60_000

describe('a connection to PostgreSQL', async () => {
  const database = await createTestDatabase('postgres')
  after(() => database.drop())
  if (database.config.engine !== 'postgres') throw new Error('not PostgreSQL')
  const config = database.config
  const { url } = config

  /** Opens no second connection. Closed after the calling test. */
  function open(options = {}) {
    const engine = openPostgres({
      ...{ ...config, poolSize: 1, onConnectionLost: () => {}, operationTimeoutMs: PATIENT_MS },
      ...options,
    })
    after(() => engine.close())
    return engine
  }

  /** Settings of a connection that the service opened, as the server reports them. */
  async function settingsOf(address: string, ...names: string[]) {
    const settings = names.map(name => sql`current_setting(${name})`)
    const { rows } = await sql<{ settings: string[] }>`
      select array[${sql.join(settings)}] as settings`.execute(open({ url: address }).db)
    return rows[0]?.settings
  }

  test('has the settings of the service, also if its address or its role has others', async () => {
    const names = ['plan_cache_mode', 'enable_seqscan', 'enable_bitmapscan', 'jit']
    const plans = ['force_generic_plan', 'off', 'off', 'off']
    const commits = ['synchronous_commit', 'statement_timeout', 'work_mem']
    const own = new URL(url)
    own.searchParams.set('options', '-c work_mem=1234kB -c synchronous_commit=remote_write')
    assert.deepEqual(await settingsOf(own.toString(), ...names, ...commits), [
      ...plans,
      ...['remote_write', '59800ms', '1234kB'],
    ])
    own.searchParams.set('options', '-c synchronous_commit=off -c statement_timeout=90000')
    const settings = await settingsOf(own.toString(), ...commits.slice(0, 2))
    assert.deepEqual(settings, ['on', '59800ms'])
  })

  test('fails if no server accepts its options, with the errors of all hosts', async () => {
    const { host } = new URL(url)
    const wrong = `${url.replace(host, `${host},${host}`)}?options=-c%20no_such_setting%3D1`
    await assert.rejects(settingsOf(wrong, 'work_mem'), /no_such_setting.*; .*no_such_setting/)
  })

  test('that the server ends fails only the operation that used it', async () => {
    const engine = open()
    const ended = assert.rejects(sql`select pg_sleep(60)`.execute(engine.db), { code: '57P01' })
    const waiting = [1, 2, 3].map(() => sql`select 1`.execute(engine.db))
    await until(async () => {
      const rows = await database.rows(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and query = 'select pg_sleep(60)'`,
      )
      return rows.length > 0
    })
    await ended
    await Promise.all(waiting)
  })

  test('is not used again after a commit that was cancelled, whose transaction is still open', async () => {
    const commitText = message('Q', 'commit\0')
    const cancelled = [message('E', 'SERROR\0C57014\0Mcancelled\0\0'), message('Z', 'T')]
    const wire = await startWire(url, chunk =>
      chunk.equals(commitText) ? Buffer.concat(cancelled) : null,
    )
    after(wire.stop)
    const engine = open({ url: wire.url })
    const readId = prepare<Record<string, never>, { pid: number }>(
      () => sql<{ pid: number }>`select pg_backend_pid() as pid`,
    )
    const [before] = await engine.readPrepared(readId, {})
    const commit = () => engine.inTransaction(() => run(readId, {}))
    await assert.rejects(commit, { code: '57014' })
    const [afterwards] = await engine.readPrepared(readId, {})
    assert.notEqual(afterwards?.pid, before?.pid)
  })

  test('reads a table whose columns have changed their type', async () => {
    const engine = open()
    const read = prepare<Record<string, never>, { value: string }>(
      () => sql<{ value: string }>`select value from changing`,
    )
    await database.rows("create table changing as select 'kept'::text as value")
    assert.deepEqual(await engine.readPrepared(read, {}), [{ value: 'kept' }])
    await database.rows('alter table changing alter column value type varchar(8)')
    assert.deepEqual(await engine.readPrepared(read, {}), [{ value: 'kept' }])
  })

  test('that is in use is waited for as long as an operation may take', async () => {
    const engine = open()
    await sql`select 1`.execute(engine.db)
    const long = sql`select pg_sleep(1.5)`.execute(engine.db)
    await sql`select 1`.execute(engine.db)
    await long
  })

  test('that a busy server opens late is waited for by an operation with more time than a request', async () => {
    const wire = await startWire(url)
    const engine = open({ url: wire.url })
    after(wire.stop)
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(engine.db)
    await database.rows(`select pg_terminate_backend(${rows[0]?.pid})`)
    await until(async () => (await engine.maintenance.countConnections())?.idle === 0)
    wire.cut()
    const waiting = sql`select 1`.execute(engine.db)
    setTimeout(wire.mend, 1_500)
    await waiting
  })

  test('gives a repeated operation only the time that is left', async () => {
    // Enough for the first run on a busy machine. The test waits until it is over.
    const engine = open({ operationTimeoutMs: 5_000 })
    const fail = sql`do $$ begin raise exception 'in parallel' using errcode = '40001'; end $$`
    let runs = 0
    const repeated = engine.retrying(() =>
      runs++ === 0 ? fail.execute(engine.db) : new Promise<never>(() => {}),
    )
    await assert.rejects(repeated, /timeout: a repeated operation/)
  })
})

/** A message of PostgreSQL's protocol. */
function message(type: string, body: string): Buffer {
  const bytes = Buffer.from(`${type}0000${body}`, 'latin1')
  bytes.writeInt32BE(bytes.length - 1, 1)
  return bytes
}
