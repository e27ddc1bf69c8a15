// /readyz: how often it writes, and that one instance does not make another unready.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { ENGINES } from '../support/engines.ts'
import {
  createDeployment,
  type Deployment,
  type ServiceProcess,
  until,
} from '../support/process.ts'

/** The service uses the result of a readiness check for this long. */
const SHARED_MS = 1_000
/** A readiness check ends within this time. */
const CHECK_MS = 40
const ROUNDS = 10
/** Probes at the same time, as from several load balancers. */
const PROBES = 8
const PROBE_EVERY_MS = 20

// At the same time: a check is shared for a second, so every test waits for most of its time.
describe('readiness', { concurrency: true }, () => {
  for (const engine of ENGINES) {
    describe(`on ${engine}`, () => sharesWrites(engine))
    describe(`and the log on ${engine}`, () => isReported(engine))
    describe(`after a write error on ${engine}`, () => remembersWriteErrors(engine))
  }
  describe('of several instances on postgres', isIndependent)
})

function sharesWrites(engine: EngineName): void {
  let deployment: Deployment
  let service: ServiceProcess
  before(async () => {
    deployment = await createDeployment(engine)
    service = await deployment.start()
  })
  after(() => deployment.remove())

  const probe = () => service.health('/readyz')
  const checkedAt = async () => {
    const [row] = await deployment.database.rows('select checked_at from service')
    return new Date(String(row?.checked_at)).getTime()
  }

  test('probes within a second share one write, later probes cause another', async () => {
    const startMs = performance.now()
    const writes = new Set<unknown>()
    while (writes.size < 3) {
      const statuses = await Promise.all(Array.from({ length: PROBES }, probe))
      assert.deepEqual(new Set(statuses), new Set([200]))
      writes.add(await checkedAt())
      await setTimeout(PROBE_EVERY_MS)
    }
    assert.ok(performance.now() - startMs > 2_000, '3 writes in 2 seconds')
  })
}

function isReported(engine: EngineName): void {
  test('the log tells when the database no longer accepts writes, and when it does again', async t => {
    const deployment = await createDeployment(engine)
    t.after(() => deployment.remove())
    const service = await deployment.start()
    const probe = () => service.health('/readyz')
    const eventsOf = () =>
      service.lines().flatMap(({ event }) => (/ready/.test(String(event)) ? [String(event)] : []))
    assert.deepEqual(eventsOf(), [])
    await deployment.database.rows('alter table service rename to hidden')
    await until(async () => (await probe()) === 503)
    await deployment.database.rows('alter table hidden rename to service')
    await until(async () => (await probe()) === 200)
    // The line may come later than the answer.
    await until(async () => eventsOf().at(-1) === 'service.ready_again')
    assert.deepEqual(new Set(eventsOf().slice(0, -1)), new Set(['service.not_ready']))
  })
}

/** Readiness is not asked while the disk is full: a small write may succeed on a full disk, too. */
function remembersWriteErrors(engine: EngineName): void {
  test('a login that found the disk full makes the service unready for a while', async t => {
    const deployment = await createDeployment(engine)
    t.after(() => deployment.remove())
    const email = 'ann@example.com'
    await deployment.addUser(email)
    const service = await deployment.start()
    assert.equal((await service.login(email)).status, 200)
    if (engine === 'sqlite') {
      const limit = (bytes: string) =>
        promisify(execFile)('prlimit', ['--pid', String(service.pid), `--fsize=${bytes}:`])
      await limit('4096')
      assert.equal((await service.login(email)).status, 500)
      await limit('unlimited')
    } else {
      await deployment.database.rows(`create function fail() returns trigger language plpgsql
        as 'begin raise exception ''could not extend file'' using errcode = ''53100''; end'`)
      await deployment.database.rows(
        'create trigger fail before insert on sessions for each row execute function fail()',
      )
      assert.equal((await service.login(email)).status, 500)
    }
    assert.equal(await service.health('/readyz'), 503)
    const { err } = await service.line('service.not_ready')
    assert.match(err?.message ?? '', /disk I\/O error|could not extend file/)
    await until(async () => (await service.health('/readyz')) === 200)
    assert.equal((await service.login(email)).status, engine === 'sqlite' ? 200 : 500)
  })
}

function isIndependent(): void {
  let deployment: Deployment
  let frozen: ServiceProcess
  let other: ServiceProcess
  before(async () => {
    deployment = await createDeployment('postgres')
    frozen = await deployment.start()
    other = await deployment.start()
  })
  after(() => deployment.remove())

  test('an instance that is frozen at any moment of its check does not make another unready', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      let isOver = false
      const probes = Array.from({ length: PROBES }, async () => {
        while (!isOver) await frozen.health('/readyz').catch(() => 0)
      })
      // Different moments of the check, from before its write to after it.
      await setTimeout((round * CHECK_MS) / ROUNDS)
      frozen.kill('SIGSTOP')
      try {
        assert.equal(await other.health('/readyz'), 200, `round ${round}`)
      } finally {
        isOver = true
        frozen.kill('SIGCONT')
        await Promise.all(probes)
      }
      // The next round must start a new check.
      await setTimeout(SHARED_MS + 50)
    }
  })
}
