// The service at the limits of its machine. Each limit ends in a clear message or a working service, never in a wrong
// answer. The figures are printed, and how the machine was limited where it does not permit the usual way.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { decodeJwt } from 'jose'
import { createCli } from '../support/cli.ts'
import { ENGINES } from '../support/engines.ts'
import { createMovedClock } from '../support/moved-clock.ts'
import { eventsOf, inParallel, own, ownFolder } from '../support/own.ts'
import { createDeployment, SERVE, type ServiceProcess, until } from '../support/process.ts'
import {
  type Answer,
  countStatuses,
  PASSWORD,
  UNLIMITED,
  WITH_THREADS,
} from '../support/service.ts'
import { proveIpv6Only } from './ipv6-only.ts'
import { createSmallDisk, createSmallMemory } from './small-machine.ts'

const USER_EMAIL = 'kate@example.com'
const BLOCK_SECONDS = 15 * 60
const OTHER = 'ann@example.com'
/** Half an hour beside the others, also in summer. */
const ZONE = 'Australia/Lord_Howe'
const HOUR_MS = 3_600_000
const CONNECTIONS = 1_000
const MAX_DESCRIPTORS = 256
/** Connections that are opened between two logins. */
const AT_ONCE = 100
const MEMORY_MIB = 128
const LOGINS_AT_ONCE = 32

/** A right password is never refused, a wrong one never accepted, however the machine fails. */
async function logIn(service: ServiceProcess): Promise<Answer | null> {
  const [right = null, wrong] = await Promise.all(
    [PASSWORD, 'wrong password'].map(password =>
      service.login(USER_EMAIL, password).catch(() => null),
    ),
  )
  if (right) assert.ok([200, 500, 503].includes(right.status), `right: ${right.status}`)
  if (wrong) assert.ok([401, 500, 503].includes(wrong.status), `wrong: ${wrong.status}`)
  return right
}

const refreshTokenIn = ({ json }: Answer) => json.data.refreshToken

/** The token is replaced, and its repetition gets the same successor. */
async function proveRefresh(service: ServiceProcess, refreshToken: string): Promise<string> {
  const refresh = { path: '/api/v1/auth/refresh', body: { refreshToken } }
  const [first, second] = [await service.call(refresh), await service.call(refresh)]
  assert.deepEqual([first.status, second.status], [200, 200])
  assert.notEqual(refreshTokenIn(first), refreshToken)
  assert.equal(refreshTokenIn(second), refreshTokenIn(first))
  return refreshTokenIn(first)
}

/** Of ten guesses five are verified. Returns the longest wait of the others, in seconds. */
async function proveBlock(service: ServiceProcess, email: string): Promise<number> {
  const answers = []
  for (let i = 0; i < 10; i++) answers.push(await service.login(email, `guess ${i}`))
  assert.deepEqual(countStatuses(answers), { 401: 5, 429: 5 })
  return Math.max(...answers.map(({ headers }) => Number(headers['retry-after'] ?? 0)))
}

/** Why the last request failed, as the log says. */
function reasonOf(service: ServiceProcess): string {
  const failed = service.lines().filter(({ event, err }) => event === 'request.failed' && err)
  return failed.at(-1)?.err?.message ?? ''
}

/** The service ends what it has begun. */
async function endGracefully(service: ServiceProcess): Promise<void> {
  service.kill('SIGTERM')
  await service.exit
  const events = eventsOf(service.lines())
  assert.ok(events.includes('service.stopped'), service.output().slice(-2_000))
  assert.ok(!events.includes('service.cut_off'))
}

for (const engine of ENGINES) {
  describe(`on ${engine}`, () => {
    test(`${CONNECTIONS} connections and ${MAX_DESCRIPTORS} descriptors`, async t => {
      const deployment = await own(createDeployment(engine, { ...WITH_THREADS, ...UNLIMITED }))
      await deployment.addUser(USER_EMAIL)
      const limited = ['sh', '-c', `ulimit -n ${MAX_DESCRIPTORS}; exec "$@"`, 'sh', ...SERVE]
      const service = await deployment.start({}, { command: limited })
      const { hostname, port } = new URL(service.url)
      const sockets: Socket[] = []
      let unanswered = 0
      while (sockets.length < CONNECTIONS) {
        for (let i = 0; i < AT_ONCE; i++) {
          const localAddress = `127.0.7.${(sockets.length % 8) + 1}`
          sockets.push(
            connect({ host: hostname, port: Number(port), localAddress }).on('error', () => {}),
          )
        }
        if ((await logIn(service))?.status !== 200) unanswered++
      }
      // Its first reader needs descriptors, because a library is loaded.
      const readDescription = () => service.call({ method: 'GET', path: '/openapi.json' })
      await readDescription()
      for (const socket of sockets) socket.destroy()
      await until(async () => (await logIn(service))?.status === 200)
      assert.equal((await readDescription()).status, 200)
      await endGracefully(service)
      t.diagnostic(
        `${engine}: ${unanswered} of ${CONNECTIONS / AT_ONCE} logins meanwhile got no answer or an error`,
      )
    })

    test(`${MEMORY_MIB} MiB of memory`, async t => {
      const deployment = await own(createDeployment(engine, { ...WITH_THREADS, ...UNLIMITED }))
      const memory = await own(createSmallMemory(MEMORY_MIB))
      await deployment.addUser(USER_EMAIL)
      const service = await deployment.start({}, { command: memory.command })
      const tooLarge = { email: USER_EMAIL, password: 'x'.repeat(1_048_576) }
      for (let round = 0; round < 3; round++) {
        const logins = inParallel(LOGINS_AT_ONCE, () => logIn(service))
        const refused = await service.call({ body: tooLarge }).catch(() => null)
        assert.equal(refused?.status ?? 413, 413)
        await logins
      }
      assert.equal((await logIn(service))?.status, 200)
      const status = readFileSync(`/proc/${service.pid}/status`, 'utf8')
      const mib = (name: string) =>
        Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1_024)
      await endGracefully(service)
      t.diagnostic(
        `${engine}, by ${memory.way}: with ${LOGINS_AT_ONCE} logins at once ${mib('RssAnon')} MiB, and ${mib('RssFile')} MiB of files that the kernel can drop`,
      )
    })

    test('a clock that stands still, steps back by 5 hours, and forward by 10', async () => {
      const deployment = await own(createDeployment(engine))
      for (const email of [USER_EMAIL, OTHER]) await deployment.addUser(email)
      const clock = await createMovedClock(deployment.dataDir, 0)
      const service = await deployment.start(clock.env)
      const startMs = performance.now()
      // The database's clock goes on, so the service may be behind it by the time that has passed.
      const assertWait = (seconds: number) =>
        assert.ok(seconds <= BLOCK_SECONDS + (performance.now() - startMs) / 1_000, `${seconds} s`)
      await clock.freeze()
      let token = refreshTokenIn(await service.login(USER_EMAIL))
      for (let round = 0; round < 3; round++) token = await proveRefresh(service, token)
      assertWait(await proveBlock(service, OTHER))
      const wait = async () => Number((await service.login(OTHER)).headers['retry-after'] ?? 0)
      for (const hours of [-5, 5]) {
        await clock.move(hours * HOUR_MS)
        // On PostgreSQL the database's clock counts, which is not moved.
        const expectedMs = Date.now() + (engine === 'sqlite' ? hours * HOUR_MS : 0)
        await until(async () => {
          const login = await service.login(USER_EMAIL)
          assert.equal(login.status, 200)
          const { iat = 0 } = decodeJwt(login.json.data.accessToken)
          return Math.abs(iat * 1_000 - expectedMs) < HOUR_MS
        })
        token = await proveRefresh(service, token)
        const seconds = await wait()
        assertWait(seconds)
        if (engine === 'postgres') assert.ok(seconds > 0)
        else if (hours > 0) assert.equal(seconds, 0)
      }
      // A step is no wrong clock where there is no other one.
      if (engine === 'sqlite') {
        assert.equal(await service.health('/readyz'), 200)
        assert.doesNotMatch(service.output(), /clock\./)
      }
      await endGracefully(service)
    })
  })
}

test('a full disk, and a disk that becomes read-only', async t => {
  const folder = await ownFolder('login-disk-')
  const deployment = await own(createDeployment('sqlite', { ...WITH_THREADS, ...UNLIMITED }))
  await deployment.addUser(USER_EMAIL)
  const disk = await createSmallDisk(deployment.dataDir, folder)
  if (!disk) return t.skip('no file system can be mounted; faults.slow.test.ts injects its errors')
  const service = await deployment.start({ DATA_DIR: disk.dataDir }, { command: disk.command })
  const confirmed: Answer[] = []
  const untilRefused = () =>
    until(async () => {
      const answer = await logIn(service)
      if (answer?.status === 200) confirmed.push(answer)
      return answer?.status === 500
    })
  await disk.fill(service)
  await untilRefused()
  assert.equal(await service.health('/readyz'), 503)
  assert.equal(await service.health('/livez'), 200)
  const full = reasonOf(service)
  await disk.makeRoom(service)
  await until(async () => (await service.health('/readyz')) === 200)
  assert.equal((await logIn(service))?.status, 200)
  for (const answer of confirmed) await proveRefresh(service, refreshTokenIn(answer))

  await disk.makeReadOnly(service)
  await untilRefused()
  await until(async () => (await service.health('/readyz')) === 503)
  assert.equal((await service.call({ method: 'GET', path: '/login' })).status, 200)
  const readOnly = reasonOf(service)
  await endGracefully(service)
  t.diagnostic(`not ready on a full disk: “${full}”, on one that is read-only: “${readOnly}”`)
})

test('no IPv4', async t => t.diagnostic(await proveIpv6Only()))

test(`the time zone ${ZONE}: everything tells the time as it does in UTC`, async () => {
  const deployment = await own(createDeployment('postgres'))
  const cli = await own(createCli(deployment.database))
  const beforeMs = Date.now()
  await deployment.addUser(USER_EMAIL)
  const service = await deployment.start({ TZ: ZONE })
  const headers = { 'Sec-Fetch-Site': 'same-origin' }
  const login = await service.call({ headers, body: { email: USER_EMAIL, password: PASSWORD } })
  assert.doesNotMatch(String(login.headers['set-cookie']), /expires/i)
  const { iat = 0, exp = 0 } = decodeJwt(login.json.data.accessToken)
  const sessionMs = Date.parse(String(login.json.data.user.createdAt))
  for (const ms of [iat * 1_000 + 1_000, exp * 1_000 - HOUR_MS + 1_000, sessionMs]) {
    assert.ok(ms >= beforeMs && ms <= Date.now() + 1_000, `${ms}`)
  }
  assert.ok((await proveBlock(service, USER_EMAIL)) <= BLOCK_SECONDS)
  const lock = ['users', 'lock', USER_EMAIL, '--until', '2130-01-31T12:00']
  assert.equal((await cli.run(lock, '', { TZ: ZONE })).code, 0)
  for (const command of [
    ...['users list', 'throttle list', 'audit list', `users show ${USER_EMAIL}`],
    `sessions list ${USER_EMAIL}`,
  ]) {
    const inZone = await cli.run(command.split(' '), '', { TZ: ZONE })
    assert.deepEqual(inZone, await cli.run(command.split(' '), '', { TZ: 'UTC' }))
  }
  for (const { time } of service.lines()) {
    const ms = Date.parse(String(time))
    assert.ok(String(time).endsWith('Z') && ms >= beforeMs && ms <= Date.now(), String(time))
  }
  await endGracefully(service)
})
