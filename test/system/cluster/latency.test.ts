// The duration of a login over three instances, compared with one instance, both behind HAProxy.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import bcrypt from 'bcrypt'
import { createDeployment, timed } from '../../support/process.ts'
import { PASSWORD } from '../../support/service.ts'
import { BEHIND_BALANCER, chooseTargets, startBalancer } from './balancer.ts'

const COST = 11
const LOGINS = 40
const EMAIL = 'kate@example.com'
/** About 1.0 is expected. */
const MAX_RATIO = 1.5
/** Another program may run during the logins of one side, so one measurement within the limit is enough. */
const MEASUREMENTS = 5

test('a login over three instances takes as long as over one', async t => {
  await using opened = new AsyncDisposableStack()
  const deployment = opened.adopt(
    await createDeployment('postgres', { ...BEHIND_BALANCER, BCRYPT_COST: String(COST) }),
    created => created.remove(),
  )
  await deployment.addUser(EMAIL, await bcrypt.hash(PASSWORD, COST))
  const targets = await chooseTargets(3)
  for (const { port, opsPort } of targets) await deployment.start({ PORT: port, OPS_PORT: opsPort })
  const balance = async (count: number) =>
    opened.adopt(await startBalancer('haproxy', targets.slice(0, count)), ({ stop }) => stop())
  const balancers = [await balance(3), await balance(1)]
  let ratio = Number.POSITIVE_INFINITY
  for (let measurement = 0; measurement < MEASUREMENTS && ratio >= MAX_RATIO; measurement++) {
    const sides = balancers.map(balancer => ({ balancer, ms: [] as number[] }))
    // One login at a time, so that every core has the same load with one instance and with three.
    for (let login = 0; login < LOGINS; login++) {
      for (const { balancer, ms } of sides) {
        const answer = await timed(balancer.call({ body: { email: EMAIL, password: PASSWORD } }))
        assert.equal(answer.value.status, 200)
        ms.push(answer.ms)
      }
    }
    const [three = 0, one = 0] = sides.map(({ ms }) => ms.toSorted((a, b) => a - b)[LOGINS / 2])
    ratio = three / one
    t.diagnostic(
      `p50 over three instances ${three.toFixed(1)} ms ÷ over one ${one.toFixed(1)} ms = ${ratio.toFixed(3)}`,
    )
  }
  assert.ok(ratio < MAX_RATIO)
})
