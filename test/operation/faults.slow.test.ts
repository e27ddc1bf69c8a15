// Answers, readiness, log and throttle while the database fails, and after it works again.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, rename } from 'node:fs/promises'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { createLog } from '../../src/log/log.ts'
import { type Fault, OWNER, proveFault, startWithUsers } from '../support/fault-proof.ts'
import { createFullDisk } from '../support/full-disk.ts'
import {
  freePort,
  NO_FSYNC,
  type PostgresServer,
  startPostgres,
} from '../support/postgres-server.ts'
import {
  createDeployment,
  type Deployment,
  run,
  SERVE,
  type ServiceProcess,
  timedByTicks,
  until,
} from '../support/process.ts'
import { createClient, PASSWORD, UNLIMITED } from '../support/service.ts'
import { releaseDisk, stallDisk, withSlowDisk } from '../support/slow-disk.ts'

const exec = promisify(execFile)

describe('while SQLite fails', () => {
  let deployment: Deployment
  let service: ServiceProcess
  let file: string
  let other: DatabaseSync
  before(async () => {
    deployment = await createDeployment('sqlite', UNLIMITED)
    if (deployment.database.config.engine === 'sqlite') file = deployment.database.config.file
    // Root may write to read-only files unless it gives up these capabilities.
    const setpriv = ['setpriv', '--bounding-set=-dac_override,-dac_read_search', '--']
    service = await startWithUsers(
      deployment,
      process.getuid?.() === 0 ? [...setpriv, ...SERVE] : SERVE,
      withSlowDisk(`${file}.slow`),
    )
  })
  after(() => deployment.remove())

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
      begin: () => stallDisk(`${file}.slow`),
      reason: /^the database did not answer in time$/,
      end: () => releaseDisk(`${file}.slow`),
    },
  ]
  for (const fault of FAULTS) {
    test(`${fault.title}: 500 in time, not ready, and well again afterwards`, () =>
      proveFault(deployment, service, fault))
  }
})

describe('while PostgreSQL fails', () => {
  let server: PostgresServer
  let deployment: Deployment
  let service: ServiceProcess
  let other: pg.Client
  let frozen: number[] = []
  before(async () => {
    server = await startPostgres(NO_FSYNC)
    // With the default delay, so that the longest end is measured.
    const env = { ...UNLIMITED, DRAIN_DELAY_MS: '' }
    deployment = await createDeployment('postgres', env, server.url)
    service = await startWithUsers(deployment, SERVE)
  })
  after(async () => {
    await deployment.remove()
    await server.stop()
  })

  /** Stops the process of every connection, and the first process, which would start further ones. */
  async function freeze(): Promise<void> {
    const sessions = await deployment.database.rows(
      'select pid from pg_stat_activity where pid <> pg_backend_pid()',
    )
    frozen = [server.pid(), ...sessions.map(({ pid }) => Number(pid))]
    for (const pid of frozen) process.kill(pid, 'SIGSTOP')
  }
  async function thaw(): Promise<void> {
    for (const pid of frozen) process.kill(pid, 'SIGCONT')
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
    {
      title: 'the server is frozen',
      begin: freeze,
      reason: /timeout/,
      end: thaw,
    },
    {
      title: 'the server is stopped',
      begin: () => server.end('SIGINT'),
      reason: /ECONNREFUSED/,
      end: () => server.start(),
    },
    {
      title: 'the server is killed',
      begin: () => server.end('SIGKILL'),
      reason: /ECONNREFUSED/,
      end: () => server.start(),
    },
  ]
  for (const fault of FAULTS) {
    test(`${fault.title}: 500 in time, not ready, and well again afterwards`, () =>
      proveFault(deployment, service, fault))
  }

  test('the service ends on SIGTERM although the server is frozen', async () => {
    await freeze()
    try {
      const login = service.login(OWNER)
      await until(async () => (await service.health('/readyz')) === 503)
      service.kill('SIGTERM')
      const { value, ms } = await timedByTicks(service.exit)
      assert.deepEqual(value, { code: 0, signal: null })
      assert.ok(ms < 10_000, `ended after ${ms} ms`)
      assert.equal((await login).status, 500)
    } finally {
      await thaw()
    }
  })
})

describe('while the log cannot be written', () => {
  test('logins are answered', async () => {
    const deployment = await createDeployment('sqlite')
    await deployment.addUser(OWNER)
    const [PORT, OPS_PORT] = [String(await freePort()), String(await freePort())]
    const command = ['sh', '-c', 'exec "$@" > /dev/full', 'sh', ...SERVE]
    const service = run({ ...deployment.env, PORT, OPS_PORT }, { command })
    const readiness = () => fetch(`http://127.0.0.1:${OPS_PORT}/readyz`).catch(() => null)
    try {
      await until(async () => (await readiness())?.status === 200)
      const client = await createClient(`https://127.0.0.1:${PORT}`, deployment.dataDir)
      const { status } = await client.call({ body: { email: OWNER, password: PASSWORD } })
      assert.equal(status, 200)
      client.close()
      service.kill('SIGTERM')
      assert.deepEqual(await service.exit, { code: 0, signal: null })
    } finally {
      service.kill('SIGKILL')
      await deployment.remove()
    }
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
    assert.deepEqual(
      told.map(({ event, lines }) => [event, lines]),
      [
        ['login.failed', undefined],
        ['log.lines_lost', 2],
      ],
    )
    assert.equal(log.countLost(), 2)
  })
})
