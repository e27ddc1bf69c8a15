// The service on SQLite while the disk takes long to sync.
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { proveNoAnswerIsLost } from '../support/crash-cycles.ts'
import { createDeployment, type Deployment, timedByTicks, until } from '../support/process.ts'
import { countStatuses } from '../support/service.ts'
import { releaseDisk, stallDisk, withSlowDisk } from '../support/slow-disk.ts'

const EMAIL = 'kate@example.com'
const PARALLEL = 30
/** Long enough that the other clients' logins wait for it, and share the next commit. */
const SLOW_MS = 30
const CYCLES = 4

describe('while the disk is slow', () => {
  let deployment: Deployment
  let file: string
  before(async () => {
    deployment = await createDeployment('sqlite')
    file = join(deployment.dataDir, 'slow')
    await deployment.addUser(EMAIL)
  })
  after(() => deployment.remove())

  const start = () => deployment.start(withSlowDisk(file))

  test('what needs no database is answered, and a login that got a 500 takes no effect later', async () => {
    const service = await start()
    await stallDisk(file)
    // From here on the thread waits for its commit.
    await until(async () => (await service.health('/readyz')) === 503)
    const logins = Promise.all(Array.from({ length: PARALLEL }, () => service.login(EMAIL)))
    assert.equal(await service.health('/livez'), 200)
    assert.equal((await service.call({ method: 'GET', path: '/login' })).status, 200)
    assert.equal((await service.login('')).status, 400)
    assert.deepEqual(countStatuses(await logins), { 500: PARALLEL })

    await releaseDisk(file)
    await until(async () => (await service.health('/readyz')) === 200)
    assert.deepEqual(await deployment.database.rows('select * from login_throttle'), [])
    assert.equal((await service.login(EMAIL)).status, 200)
    service.kill('SIGTERM')
    assert.deepEqual(await service.exit, { code: 0, signal: null })
  })

  test('the service ends on SIGTERM although the disk does not sync', async () => {
    // With the default delay, so that the longest end is measured.
    const service = await deployment.start({ ...withSlowDisk(file), DRAIN_DELAY_MS: '' })
    await stallDisk(file)
    const login = service.login(EMAIL)
    await until(async () => (await service.health('/readyz')) === 503)
    service.kill('SIGTERM')
    const { value, ms } = await timedByTicks(service.exit)
    // The thread is in a system call, so that only this signal ends the process.
    assert.deepEqual(value, { code: null, signal: 'SIGKILL' })
    assert.ok(ms < 10_000, `ended after ${ms} ms`)
    assert.equal((await login).status, 500)
    const events = service.lines().map(({ event }) => event)
    assert.deepEqual(events.slice(-2), ['service.stopped', 'service.killed'])
    await releaseDisk(file)
  })

  test(`after ${CYCLES} kills (SIGKILL) while logins share their commits, no answered login is lost`, async () => {
    await writeFile(file, String(SLOW_MS))
    await proveNoAnswerIsLost(
      { ...deployment, start: env => deployment.start({ ...env, ...withSlowDisk(file) }) },
      CYCLES,
    )
  })
})
