// Answers, readiness, log and throttle while the database fails, and after it works again.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Writable } from 'node:stream'
import { after, describe, test } from 'node:test'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { decodeJwt } from 'jose'
import pg from 'pg'
import { createLog } from '../../src/log/log.ts'
import { INTERNAL_ERROR } from '../storage/faults/requests.ts'
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
import {
  type Answer,
  countStatuses,
  createClient,
  PASSWORD,
  UNLIMITED,
} from '../support/service.ts'
import { releaseDisk, stallDisk, withSlowDisk } from '../support/slow-disk.ts'

const exec = promisify(execFile)

/** A busy machine sheds some attempts before it uses the database. */
const SHED = 503
/** A login waits at most 1.5 s for the database. */
const ANSWERED_WITHIN_MS = 2_000
/** A blocked event loop would not answer for a second and more. */
const ALIVE_WITHIN_MS = 500
/** Often enough to notice a blocked event loop; without a pause the probes would take a whole core. */
const PULSE_EVERY_MS = 20
/** On a busy machine the limits grow by this multiple of the times measured without a fault. */
const LOAD_FACTOR = 4
const OWNER = 'owner@example.com'
const USERS = Array.from({ length: 30 }, (_, index) => `user${index}@example.com`)

type Fault = {
  title: string
  begin: () => Promise<unknown>
  /** The logged error: the first one, not an error of the cleanup after it. */
  reason: RegExp
  end: () => Promise<unknown>
}

/** With the default delay, so that the longest end is measured. */
const ENV = { ...UNLIMITED, DRAIN_DELAY_MS: '' }

/** On a slow machine an operation may reach its time limit before the database fails it. */
const TIME_LIMIT = /^timeout|did not answer in time$/

type Limits = { answeredWithinMs: number; aliveWithinMs: number }

/** Measures as many logins at once as are sent while the database fails. */
async function measureHealthy(service: ServiceProcess): Promise<Limits> {
  const { logins, slowestPulseMs } = await logInAll(service)
  const slowestLoginMs = Math.max(...logins.map(({ ms }) => ms))
  return {
    answeredWithinMs: ANSWERED_WITHIN_MS + LOAD_FACTOR * slowestLoginMs,
    aliveWithinMs: ALIVE_WITHIN_MS + LOAD_FACTOR * slowestPulseMs,
  }
}

async function proveRefusals(service: ServiceProcess, reason: RegExp, limits: Limits) {
  const { answeredWithinMs, aliveWithinMs } = limits
  const linesBefore = service.lines().length
  // The result of a check before the fault is used for a second.
  const readiness = timedByTicks(until(async () => (await service.health('/readyz')) === 503))
  const { logins, slowestPulseMs } = await logInAll(service, 'wrong password')
  for (const { ms } of logins) assert.ok(ms < answeredWithinMs, `answered after ${ms} ms`)
  const refused = logins.filter(({ value }) => value.status !== SHED)
  for (const { value } of refused) {
    assert.equal(value.status, 500)
    assert.equal(value.text, INTERNAL_ERROR)
  }
  assert.ok((await readiness).ms < answeredWithinMs + 1_000, 'not ready in time')
  assert.ok(slowestPulseMs < aliveWithinMs, `alive after ${slowestPulseMs} ms`)

  const lines = () => service.lines().slice(linesBefore)
  const failures = () => lines().filter(({ event }) => event === 'request.failed')
  assert.ok(refused.length > 0)
  // The first failure is logged at once, the others as a count a second later.
  await until(
    async () => failures().reduce((sum, { count = 1 }) => sum + Number(count), 0) >= refused.length,
  )
  for (const { level, err, count } of failures()) {
    assert.equal(level, 'error')
    const { message = '' } = err ?? {}
    if (count === undefined && !TIME_LIMIT.test(message)) assert.match(message, reason)
  }
  assert.deepEqual(
    lines().filter(({ event }) => event.startsWith('login.') && event !== 'login.shed'),
    [],
    'no attempt was verified',
  )
  assert.ok(!service.output().includes(PASSWORD))
}

/** Every second user may have another password. Also returns the slowest answer of the event loop meanwhile. */
async function logInAll(service: ServiceProcess, other = PASSWORD) {
  let isOver = false
  const over = () => {
    isOver = true
  }
  const logins = Promise.all(
    USERS.map((email, i) => timedByTicks(service.login(email, i % 2 === 0 ? PASSWORD : other))),
  )
  logins.then(over, over)
  let slowestPulseMs = 0
  while (!isOver) {
    slowestPulseMs = Math.max(slowestPulseMs, (await timedByTicks(service.health('/livez'))).ms)
    await setTimeout(PULSE_EVERY_MS)
  }
  return { logins: await logins, slowestPulseMs }
}

/** Logins without a pause, so that the fault interrupts each of their steps. */
function startLoad(service: ServiceProcess, { answeredWithinMs }: Limits) {
  const answers: Answer[] = []
  let isStopped = false
  const clients = USERS.slice(0, 8).map(async email => {
    while (!isStopped) {
      const { value, ms } = await timedByTicks(service.login(email))
      assert.ok(ms < answeredWithinMs, `answered after ${ms} ms`)
      answers.push(value)
    }
  })
  const ended = Promise.all(clients)
  // Awaited by `stop`; until then a rejection must not end the test process.
  ended.catch(() => {})
  return {
    flowing: () => Promise.race([until(async () => answers.length > clients.length), ended]),
    async stop() {
      isStopped = true
      await ended
      return answers
    },
  }
}

async function startWithUsers(deployment: Deployment, command: string[], env = {}) {
  for (const email of [OWNER, ...USERS]) await deployment.addUser(email)
  return deployment.start(env, { command })
}

function proveEach(faults: Fault[], deployment: Deployment, service: ServiceProcess): void {
  for (const { title, begin, reason, end } of faults) {
    test(`${title}: 500 in time, not ready, and well again afterwards`, async () => {
      assert.equal((await service.login(OWNER)).status, 200)
      await until(async () => (await service.health('/readyz')) === 200)
      // Opens all connections, so that no handshake is measured.
      await Promise.all(USERS.map(email => service.login(email)))
      const limits = await measureHealthy(service)

      const load = startLoad(service, limits)
      let interrupted: Answer[] = []
      try {
        await load.flowing()
        await begin()
        interrupted = await load.stop()
        await proveRefusals(service, reason, limits)
      } finally {
        await end()
      }

      await until(async () => (await service.health('/readyz')) === 200)
      assert.equal((await service.login(OWNER)).status, 200)
      assert.equal((await service.login(OWNER, 'wrong password')).status, 401)

      const stored = await deployment.database.rows('select id from refresh_tokens')
      const storedIds = new Set(stored.map(({ id }) => id))
      for (const { status, text, json } of interrupted) {
        if (status === 200) assert.ok(storedIds.has(decodeJwt(json.data.refreshToken).jti))
        else if (status !== SHED) assert.equal(text, INTERNAL_ERROR)
      }
    })
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
    const written: string[] = []
    let isFull = true
    const output = Object.assign(new Writable(), {
      write(line: string, done: (error: Error | null) => void) {
        if (!isFull) written.push(line)
        process.nextTick(done, isFull ? new Error('ENOSPC: no space left on device') : null)
        return true
      },
    })
    const log = createLog('info', output)
    log.info({ event: 'login.succeeded' })
    log.info({ event: 'login.succeeded' })
    await setImmediate()
    assert.equal(log.countLost(), 2)
    isFull = false
    log.info({ event: 'login.failed' })
    for (let turn = 0; turn < 3; turn++) await setImmediate()
    const told = written.map(line => JSON.parse(line))
    assert.deepEqual(eventsOf(told), ['login.failed', 'log.lines_lost'])
    assert.equal(told[1]?.lines, 2)
    assert.equal(log.countLost(), 2)
  })
})
