// /readyz: how often it writes, and that one instance does not make another unready.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { inParallel, own } from '../support/own.ts'
import { createDeployment, type ServiceProcess, until } from '../support/process.ts'
import { casesOf } from '../support/proof.ts'

/** The service uses the result of a readiness check for this long. */
const SHARED_MS = 1_000
/** A readiness check ends within this time. */
const CHECK_MS = 40
const ROUNDS = casesOf(12)
/** Probes at the same time, as from several load balancers. */
const PROBES = 8
const PROBE_EVERY_MS = 20
const EMAIL = 'ann@example.com'

const isReady = async (service: ServiceProcess) => (await service.health('/readyz')) === 200

/** The result of an earlier check may still be in use. */
async function becomesUnready(service: ServiceProcess, error: RegExp): Promise<void> {
  await until(async () => !(await isReady(service)))
  assert.match((await service.line('service.not_ready')).err?.message ?? '', error)
}

// At the same time: a check is shared for a second, so every test waits for most of its time.
describe('readiness', { concurrency: true }, () => {
  describe('on sqlite', { concurrency: false }, async () => {
    const deployment = await own(createDeployment('sqlite'))
    await deployment.addUser(EMAIL)
    const service = await deployment.start()

    test('probes within a second share one write, later probes cause another', async () => {
      const startMs = performance.now()
      const writes = new Set<unknown>()
      while (writes.size < 3) {
        const statuses = await inParallel(PROBES, () => service.health('/readyz'))
        assert.deepEqual(new Set(statuses), new Set([200]))
        const [row] = await deployment.database.rows('select checked_at from service')
        writes.add(row?.checked_at)
        await setTimeout(PROBE_EVERY_MS)
      }
      assert.ok(performance.now() - startMs > 2_000, '3 writes in 2 seconds')
    })

    test('a login that found the disk full makes the service unready for a while', async () => {
      assert.equal((await service.login(EMAIL)).status, 200)
      const limit = (bytes: string) =>
        promisify(execFile)('prlimit', ['--pid', String(service.pid), `--fsize=${bytes}:`])
      await limit('4096')
      assert.equal((await service.login(EMAIL)).status, 500)
      // Readiness is not asked while the disk is full: a small write may succeed then, too.
      await limit('unlimited')
      await becomesUnready(service, /disk I\/O error/)
      await until(() => isReady(service))
      assert.equal((await service.login(EMAIL)).status, 200)
    })
  })

  describe('on postgres', { concurrency: false }, async () => {
    const deployment = await own(createDeployment('postgres'))
    await deployment.addUser(EMAIL)
    const [frozen, other] = [await deployment.start(), await deployment.start()]

    test('an instance that is frozen at any moment of its check does not make another unready', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        let isOver = false
        const probing = inParallel(PROBES, async () => {
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
          await probing
        }
        // The next round must start a new check.
        await setTimeout(SHARED_MS + 50)
      }
    })

    test('a login that found the disk full makes the service unready for a while', async () => {
      assert.equal((await other.login(EMAIL)).status, 200)
      await deployment.database.rows(`create function fail() returns trigger language plpgsql
        as 'begin raise exception ''could not extend file'' using errcode = ''53100''; end'`)
      await deployment.database.rows(
        'create trigger fail before insert on sessions for each row execute function fail()',
      )
      assert.equal((await other.login(EMAIL)).status, 500)
      await becomesUnready(other, /could not extend file/)
      await until(() => isReady(other))
    })
  })
})
