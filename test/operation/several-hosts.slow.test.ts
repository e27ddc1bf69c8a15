// A primary with a standby. With several hosts in DATABASE_URL, the service finds the one that accepts writes, and follows
// a promotion. A failover to a synchronous standby loses no guess: a failure that the standby did not get counts when
// the lease of its reservation ends.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { openStore } from '../../src/storage/open-store.ts'
import { makeScopes } from '../storage/fixtures.ts'
import { nameStandby, query } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import {
  eventually,
  freePort,
  NO_FSYNC,
  type PostgresServer,
  startPostgres,
} from '../support/postgres-server.ts'
import {
  createDeployment,
  freezeServer,
  run,
  type ServiceProcess,
  stop,
  until,
} from '../support/process.ts'
import { UNLIMITED } from '../support/service.ts'
import { startWire } from '../support/wire.ts'

const OWNER = 'owner@example.com'
const LEASE_MS = 60_000
/** Enough for a busy machine; a reservation waits for it in vain. */
const OPERATION_TIMEOUT_MS = 5_000

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
    const [row] = await query(primary.url, 'select sync_state from pg_stat_replication')
    return row?.sync_state === 'sync'
  })
  const now = new Date()
  const scopes = makeScopes(OWNER, 'client', { pair: 1, email: 1, client: 1 })
  assert.equal((await store.attempts.reserve(scopes, OWNER, now)).kind, 'admitted')

  const [receiver] = await query(standby.url, 'select pid from pg_stat_wal_receiver')
  const receiverPid = Number(receiver?.pid)
  assert.ok(receiverPid > 0)
  process.kill(receiverPid, 'SIGSTOP')
  try {
    await store.attempts.fail(scopes, null, now)
    await assert.rejects(
      store.attempts.reserve(makeScopes(), OWNER, now),
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

  await eventually(() => query(standby.url, 'select pg_promote()'))
  const promoted = await open(standby)
  const later = new Date(now.getTime() + LEASE_MS)
  const counted = "select failures, pending from login_throttle where scope = 'pair'"
  const [row] = await query(standby.url, counted)
  assert.deepEqual(row, { failures: 0, pending: 1 }, 'the failure was lost')
  assert.equal((await promoted.attempts.reserve(scopes, OWNER, later)).kind, 'blocked')
  await promoted.close()
})

describe('with several hosts', async () => {
  const first = await startPostgres(NO_FSYNC)
  const second = await first.createStandby()
  const deployment = await own(createDeployment('postgres', UNLIMITED, first.url))
  after(second.stop)
  after(first.stop)
  await deployment.addUser(OWNER)

  const hostOf = ({ url }: { url: string }) => new URL(url).host
  const start = (...hosts: string[]): Promise<ServiceProcess> => {
    const { pathname } = new URL(deployment.env.DATABASE_URL ?? '')
    const url = `postgres://postgres@${hosts.join(',')}${pathname}?target_session_attrs=read-write`
    return deployment.start({ DATABASE_URL: url })
  }
  const ask = async (server: PostgresServer, statement: string) => {
    const url = new URL(deployment.env.DATABASE_URL ?? '')
    url.host = hostOf(server)
    return query(url.toString(), statement)
  }
  const countSessions = async (server: PostgresServer) =>
    Number((await ask(server, 'select count(*) from sessions'))[0]?.count)
  /** Each login is repeated until it succeeds: on a busy machine some get a 500. */
  const logInOften = (service: ServiceProcess, times: number) =>
    inParallel(times, () => until(async () => (await service.login(OWNER)).status === 200))

  test('passes a standby, a silent host, a host that drops packets and one that refuses', async () => {
    // Accepts connections and never answers, as a frozen server does.
    const silent = await own(startWire(first.url))
    silent.cut()
    const dropping = await own(dropPackets())
    const refusing = `127.0.0.1:${await freePort()}`
    const service = await start(
      ...[hostOf(second), refusing, hostOf(silent), dropping.host, hostOf(first)],
    )
    await logInOften(service, 20)
    await stop(service)
  })

  test('refuses to start without a host that accepts writes, and says why', async () => {
    const url = `postgres://postgres@${hostOf(second)},127.0.0.1:${await freePort()}/postgres`
    // On a slow machine a start may end because a host did not answer in time, which is another reason.
    await until(async () => {
      const service = run({ ...deployment.env, DATABASE_URL: url })
      assert.equal((await service.exit).code, 1)
      return /the server does not accept writes; .*ECONNREFUSED/.test(service.output())
    })
  })

  test('follows a promotion, never returns to the former primary, and leaves a server that was set to read-only', async () => {
    const service = await start(hostOf(first), hostOf(second))
    await logInOften(service, 20)
    // The primary hangs with connections of the service, and the standby takes over.
    const wake = await freezeServer(first)
    assert.equal((await service.login(OWNER)).status, 500)
    await ask(second, 'select pg_promote()')
    await until(async () => (await service.login(OWNER)).status === 200)
    await wake()

    const before = await countSessions(first)
    await logInOften(service, 40)
    assert.equal(await countSessions(first), before, 'the former primary got nothing')

    await second.end('SIGKILL')
    await until(async () => (await service.health('/readyz')) === 503)
    const reason = /timeline 1, .* used timeline 2: a former primary/
    await until(async () => {
      assert.equal((await service.login(OWNER)).status, 500)
      return service.lines().some(({ err }) => reason.test(err?.message ?? ''))
    })
    await second.start()
    await until(async () => (await service.login(OWNER)).status === 200)
    assert.equal(await countSessions(first), before, 'the former primary got nothing')

    // A server that is set to read-only is left.
    const setReadOnly = async (value: string) => {
      await ask(second, `alter system set default_transaction_read_only = ${value}`)
      await ask(second, 'select pg_reload_conf()')
    }
    await setReadOnly('on')
    await until(async () => (await service.login(OWNER)).status === 500)
    await setReadOnly('off')
    await until(async () => (await service.login(OWNER)).status === 200)
    await stop(service)
  })
})

/** The kernel drops packets to a full queue of connections, which a stopped process does not empty. */
async function dropPackets() {
  const port = await freePort()
  const script = `require('net').createServer().listen(${port}, '127.0.0.1', 1, () => console.log('listening'))`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  child.kill('SIGSTOP')
  const sockets: Socket[] = []
  let isFull = false
  while (!isFull) {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    sockets.push(socket)
    isFull = await Promise.race([once(socket, 'connect').then(() => false), setTimeout(500, true)])
  }
  return {
    host: `127.0.0.1:${port}`,
    async stop() {
      for (const socket of sockets) socket.destroy()
      child.kill('SIGKILL')
    },
  }
}
