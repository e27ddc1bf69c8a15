// A failover to a synchronous standby loses no guess: a failure that the standby did not get counts when the
// lease of its reservation ends.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { openStore } from '../../src/storage/open-store.ts'
import { makeScopes } from '../storage/fixtures.ts'
import { nameStandby, query } from '../support/engines.ts'
import { NO_FSYNC, type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { until } from '../support/process.ts'

const LEASE_MS = 60_000
/** Enough for a busy machine; a reservation waits for it in vain. */
const OPERATION_TIMEOUT_MS = 5_000
const EMAIL = 'unknown@example.com'
const BUDGETS = { pair: 1, email: 1, client: 1 }

const ask = ({ url }: PostgresServer, statement: string) => query(url, statement)
const open = ({ url }: PostgresServer) =>
  openStore({ engine: 'postgres', url, poolSize: 10 }, () => {}, OPERATION_TIMEOUT_MS)

test('a failure is settled without the standby, and is counted after a failover that loses it', async () => {
  const primary = await startPostgres(NO_FSYNC)
  const standby = await primary.createStandby()
  after(async () => {
    await standby.end('SIGKILL')
    await primary.stop()
  })
  const store = await open(primary)
  await store.migrations.apply()
  await nameStandby(primary, '*')
  await until(async () => {
    const [row] = await ask(primary, 'select sync_state from pg_stat_replication')
    return row?.sync_state === 'sync'
  })
  const now = new Date()
  const scopes = makeScopes(EMAIL, 'client', BUDGETS)
  assert.equal((await store.attempts.reserve(scopes, EMAIL, now)).kind, 'admitted')

  const [receiver] = await ask(standby, 'select pid from pg_stat_wal_receiver')
  const receiverPid = Number(receiver?.pid)
  assert.ok(receiverPid > 0)
  process.kill(receiverPid, 'SIGSTOP')
  try {
    await store.attempts.fail(scopes, null, now)
    await assert.rejects(
      store.attempts.reserve(makeScopes(), EMAIL, now),
      /timeout/,
      'a reservation waits for the standby',
    )
  } finally {
    await primary.end('SIGKILL')
    // What the standby had not read is lost with its receiver. A standby does not always survive the end of
    // its receiver, so it is started again.
    process.kill(receiverPid, 'SIGKILL')
    await standby.end('SIGKILL')
    await standby.start()
    await store.close()
  }

  await until(() =>
    ask(standby, 'select pg_promote()').then(
      () => true,
      () => false,
    ),
  )
  const promoted = await open(standby)
  const later = new Date(now.getTime() + LEASE_MS)
  const [row] = await ask(
    standby,
    "select failures, pending from login_throttle where scope = 'pair'",
  )
  assert.deepEqual(row, { failures: 0, pending: 1 }, 'the failure was lost')
  assert.equal((await promoted.attempts.reserve(scopes, EMAIL, later)).kind, 'blocked')
  await promoted.close()
})
