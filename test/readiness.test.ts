// What /readyz costs, and that one instance does not make another look unready.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { ENGINES } from './engines.ts'
import { createDeployment, type Deployment, type ServiceProcess } from './process.ts'

const ROUNDS = 20
/** Probes at the same time, as those of several balancers are. */
const PROBES = 8

for (const engine of ENGINES) {
  describe(`readiness on ${engine}`, () => {
    let deployment: Deployment
    let service: ServiceProcess
    before(async () => {
      deployment = await createDeployment(engine)
      service = await deployment.start()
    })
    after(() => deployment.remove())

    const probe = () => service.health('/readyz')
    const checkedAt = async () => {
      const [row] = await deployment.database.rows('select checked_at from readiness')
      return new Date(String(row?.checked_at)).getTime()
    }

    test('probes of the same second share one write, later ones make another', async () => {
      const startMs = performance.now()
      const writes = new Set<unknown>()
      while (writes.size < 3) {
        const statuses = await Promise.all(Array.from({ length: PROBES }, probe))
        assert.deepEqual(new Set(statuses), new Set([200]))
        writes.add(await checkedAt())
      }
      assert.ok(performance.now() - startMs > 2_000, '3 writes in 2 seconds')
    })
  })
}

describe('readiness of several instances on postgres', () => {
  let deployment: Deployment
  let frozen: ServiceProcess
  let other: ServiceProcess
  before(async () => {
    deployment = await createDeployment('postgres')
    frozen = await deployment.start()
    other = await deployment.start()
  })
  after(() => deployment.remove())

  test('one that is frozen at any moment does not make another unready', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      let isOver = false
      const probes = Array.from({ length: PROBES }, async () => {
        while (!isOver) await frozen.health('/readyz').catch(() => 0)
      })
      // From before its write to after it.
      await setTimeout(2 * round)
      frozen.kill('SIGSTOP')
      try {
        assert.equal(await other.health('/readyz'), 200, `round ${round}`)
      } finally {
        isOver = true
        frozen.kill('SIGCONT')
        await Promise.all(probes)
      }
      // Its next check is due with the next round.
      await setTimeout(1_050)
    }
  })
})
