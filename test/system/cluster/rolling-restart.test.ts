// All instances are restarted one after the other, while slow logins and refreshes go on.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import bcrypt from 'bcrypt'
import { own } from '../../support/own.ts'
import { createDeployment, until } from '../../support/process.ts'
import { PASSWORD } from '../../support/service.ts'
import { BEHIND_BALANCER, chooseTargets, startBalancer, type Target } from './balancer.ts'
import { startLoad } from './load.ts'

/** So slow that logins are in flight at every moment, and so fast that a busy machine sheds none. */
const COST = 11
const EMAILS = Array.from({ length: 2 }, (_, index) => `user${index}@example.com`)
const SESSIONS_EACH = 4

for (const balancerName of ['haproxy', 'nginx'] as const) {
  test(`three instances behind ${balancerName} are restarted and no request fails`, async t => {
    const env = { ...BEHIND_BALANCER, BCRYPT_COST: String(COST), MAX_SESSIONS_PER_USER: '1000' }
    // With the default delay.
    const deployment = await own(createDeployment('postgres', { ...env, DRAIN_DELAY_MS: '' }))
    const hash = await bcrypt.hash(PASSWORD, COST)
    for (const email of EMAILS) await deployment.addUser(email, hash)
    const targets = await chooseTargets(3)
    const start = ({ port, opsPort }: Target) => deployment.start({ PORT: port, OPS_PORT: opsPort })
    const instances = await Promise.all(targets.map(start))
    const { call } = await startBalancer(balancerName, targets)

    const load = startLoad(call, EMAILS, SESSIONS_EACH)
    after(load.stop)
    const isUsed = async (instance: (typeof instances)[number]) =>
      instance.lines().some(({ event }) => event === 'login.succeeded')
    for (const [index, target] of targets.entries()) {
      const old = instances[index]
      assert.ok(old)
      await until(() => isUsed(old))
      old.kill('SIGTERM')
      assert.deepEqual(await old.exit, { code: 0, signal: null })
      const successor = await start(target)
      await until(() => isUsed(successor))
    }
    await load.stop()
    await load.assertKept(deployment.database, t)
    assert.deepEqual(load.failures, [])
  })
}
