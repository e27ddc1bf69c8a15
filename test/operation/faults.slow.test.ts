// Answers, readiness, log and throttle while the database fails, and after it works again.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { createLog } from '../../src/log/log.ts'
import { type Fault, OWNER, proveFault, startWithUsers } from '../support/fault-proof.ts'
import { createFullDisk } from '../support/full-disk.ts'
import { eventsOf, inParallel, own } from '../support/own.ts'
import { freePort, NO_FSYNC, startPostgres } from '../support/postgres-server.ts'
import {
  createDeployment,
  type Deployment,
  type Exit,
  freezeServer,
  runOwned,
  SERVE,
  type ServiceProcess,
  stop,
  timedByTicks,
  until,
} from '../support/process.ts'
import { countStatuses, createClient, PASSWORD, UNLIMITED } from '../support/service.ts'
import { releaseDisk, stallDisk, withSlowDisk } from '../support/slow-disk.ts'

const exec = promisify(execFile)

/** With the default delay, so that the longest end is measured. */
const ENV = { ...UNLIMITED, DRAIN_DELAY_MS: '' }

function proveEach(faults: Fault[], ...started: [Deployment, ServiceProcess]): void {
  for (const fault of faults) {
    test(`${fault.title}: 500 in time, not ready, and well again afterwards`, () =>
      proveFault(...started, fault))
  }
}

/** Asks the service to end while its database does not answer. */
async function endWithoutDatabase(service: ServiceProcess): Promise<Exit> {
  const login = service.login(OWNER)
  await until(async () => (await service.health('/readyz')) === 503)
  service.kill('SIGTERM')
  const { value, ms } = await timedByTicks(service.exit)
  assert.ok(ms < 10_000, `ended after ${ms} ms`)
  assert.equal((await login).status, 500)
  assert.equal((await service.line('service.stopping')).delayMs, 2_000)
  return value
}

describe('while SQLite fails', async () => {
  const deployment = await own(createDeployment('sqlite', ENV))
  const file = join(deployment.dataDir, 'login.db')
  const slow = `${file}.slow`
  // Root may write to read-only files unless it gives up these capabilities.
  const setpriv = ['setpriv', '--bounding-set=-dac_override,-dac_read_search', '--']
  const command = process.getuid?.() === 0 ? [...setpriv, ...SERVE] : SERVE
  const service = await startWithUsers(deployment, command, withSlowDisk(slow))
  let other: DatabaseSync

  const limitFileSize = (limit: string) =>
    exec('prlimit', ['--pid', String(service.pid), `--fsize=${limit}:`])

  const FAULTS: Fault[] = [
    {
      title: 'another process holds the write lock',
      async begin() {
        other = new DatabaseSync(file, { timeout: 5_000 })
        other.exec('begin immediate')
      },
      reason: /^database is locked$/,
      end: async () => other.close(),
    },
    {
      title: 'no file can grow, as on a full disk',
      begin: () => limitFileSize('4096'),
      reason: /^disk I\/O error$/,
      end: () => limitFileSize('unlimited'),
    },
    {
      title: 'the file became read-only after a write error',
      async begin() {
        await chmod(file, 0o444)
        await limitFileSize('4096')
        await service.login(OWNER)
        await limitFileSize('unlimited')
      },
      reason: /^attempt to write a readonly database$/,
      end: () => chmod(file, 0o600),
    },
    {
      title: 'the file was moved away',
      begin: () => rename(file, `${file}.moved`),
      reason: /login\.db was moved or replaced/,
      end: () => rename(`${file}.moved`, file),
    },
    {
      title: 'the disk does not sync',
      begin: () => stallDisk(slow),
      reason: /^the database did not answer in time$/,
      end: () => releaseDisk(slow),
    },
  ]
  proveEach(FAULTS, deployment, service)

  test('the disk does not sync: what needs no database is answered, and a login that got a 500 takes no effect later', async () => {
    await deployment.database.rows('delete from login_throttle')
    await stallDisk(slow)
    // From here on the thread waits for its commit.
    await until(async () => (await service.health('/readyz')) === 503)
    const logins = inParallel(30, () => service.login(OWNER))
    assert.equal(await service.health('/livez'), 200)
    assert.equal((await service.call({ method: 'GET', path: '/login' })).status, 200)
    assert.equal((await service.login('')).status, 400)
    assert.deepEqual(countStatuses(await logins), { 500: 30 })

    await releaseDisk(slow)
    await until(async () => (await service.health('/readyz')) === 200)
    assert.deepEqual(await deployment.database.rows('select * from login_throttle'), [])
    assert.equal((await service.login(OWNER)).status, 200)
  })

  test('the service ends on SIGTERM although the disk does not sync', async () => {
    await stallDisk(slow)
    // The thread is in a system call, so that only this signal ends the process.
    assert.deepEqual(await endWithoutDatabase(service), { code: null, signal: 'SIGKILL' })
    assert.deepEqual(eventsOf(service.lines()).slice(-2), ['service.stopped', 'service.killed'])
    await releaseDisk(slow)
  })
})

describe('while PostgreSQL fails', async () => {
  const server = await startPostgres(NO_FSYNC)
  const deployment = await own(createDeployment('postgres', ENV, server.url))
  after(server.stop)
  const service = await startWithUsers(deployment, SERVE)
  let other: pg.Client
  let thaw = async () => {}
  const freeze = async () => {
    thaw = await freezeServer(server)
  }

  const FAULTS: Fault[] = [
    {
      title: 'another session locks the tables',
      async begin() {
        other = new pg.Client(deployment.env.DATABASE_URL)
        await other.connect()
        await other.query('begin; lock table login_throttle, service')
      },
      // Some logins wait for the lock, the others for a connection.
      reason: /timeout/,
      end: () => other.end(),
    },
    { title: 'the server is frozen', begin: freeze, reason: /timeout/, end: () => thaw() },
    ...(['SIGINT', 'SIGKILL'] as const).map(signal => ({
      title: `the server has ended by ${signal}`,
      begin: () => server.end(signal),
      reason: /ECONNREFUSED/,
      end: () => server.start(),
    })),
  ]
  proveEach(FAULTS, deployment, service)

  test('the service ends on SIGTERM although the server is frozen', async () => {
    await freeze()
    assert.deepEqual(await endWithoutDatabase(service).finally(thaw), { code: 0, signal: null })
  })
})

describe('while the log cannot be written', () => {
  test('logins are answered', async () => {
    const deployment = await createDeployment('sqlite')
    const [PORT, OPS_PORT] = [String(await freePort()), String(await freePort())]
    const command = ['sh', '-c', 'exec "$@" > /dev/full', 'sh', ...SERVE]
    const service = runOwned({ ...deployment.env, PORT, OPS_PORT }, { command })
    after(deployment.remove)
    await deployment.addUser(OWNER)
    const readiness = () => fetch(`http://127.0.0.1:${OPS_PORT}/readyz`).catch(() => null)
    await until(async () => (await readiness())?.status === 200)
    const client = await createClient(`https://127.0.0.1:${PORT}`, deployment.dataDir)
    const { status } = await client.call({ body: { email: OWNER, password: PASSWORD } })
    assert.equal(status, 200)
    client.close()
    await stop(service)
  })

  test('lost lines are counted, and their number is logged when writing works again', async () => {
    const { output, written, makeRoom } = createFullDisk()
    const log = createLog('info', output)
    log.info({ event: 'login.succeeded' })
    log.info({ event: 'login.succeeded' })
    await setImmediate()
    assert.equal(log.countLost(), 2)
    makeRoom()
    log.info({ event: 'login.failed' })
    for (let turn = 0; turn < 3; turn++) await setImmediate()
    const told = written.map(line => JSON.parse(line))
    assert.deepEqual(eventsOf(told), ['login.failed', 'log.lines_lost'])
    assert.equal(told[1]?.lines, 2)
    assert.equal(log.countLost(), 2)
  })
})
