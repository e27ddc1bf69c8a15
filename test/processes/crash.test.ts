// The state of logins and of the throttle after the process was killed by SIGKILL.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { kill } from '../crash-cycles.ts'
import { ENGINES, type Row } from '../engines.ts'
import { createDeployment, type Deployment, until } from '../process.ts'

// Both engines at the same time: starting processes takes most of the time.
describe('after kill -9', { concurrency: true }, () => {
  for (const engine of ENGINES) {
    describe(`on ${engine}`, { concurrency: false }, () => proveCrashes(engine))
  }
})

function proveCrashes(engine: EngineName): void {
  let deployment: Deployment
  before(async () => {
    deployment = await createDeployment(engine)
  })
  after(() => deployment.remove())

  const throttleRows = (): Promise<Row[]> =>
    deployment.database.rows('select scope, failures, pending from login_throttle order by scope')

  test('an attempt that was being verified stays pending and becomes a failure', async () => {
    await deployment.addUser('slow@example.com')
    const budget = { THROTTLE_PAIR_FAILURES: '1' }
    const killed = await deployment.start({ BCRYPT_COST: '13', ...budget })
    const interrupted = killed.login('slow@example.com', 'wrong password').catch(() => 'cut off')
    await until(async () => (await throttleRows()).length === 3)
    await kill(killed)
    assert.equal(await interrupted, 'cut off')
    assert.deepEqual(
      (await throttleRows()).map(row => ({ ...row })),
      ['client', 'email', 'pair'].map(scope => ({ scope, failures: 0, pending: 1 })),
    )

    const restarted = await deployment.start(budget)
    const waiting = restarted.login('slow@example.com')
    const first = await Promise.race([waiting, setTimeout(300, 'still waiting')])
    assert.equal(first, 'still waiting', 'the pending attempt uses the whole budget')
    await deployment.database.rows(
      "update login_throttle set lease_ends_at = '2020-01-01T00:00:00.000Z'",
    )
    assert.equal((await waiting).status, 429)
    await kill(restarted)
  })

  test('a block is still in force', async () => {
    await deployment.database.rows('delete from login_throttle')
    await deployment.addUser('locked@example.com')
    const killed = await deployment.start()
    for (let attempt = 1; attempt <= 5; attempt++) {
      assert.equal((await killed.login('locked@example.com', 'wrong password')).status, 401)
    }
    assert.equal((await killed.login('locked@example.com')).status, 429)
    await kill(killed)
    const restarted = await deployment.start()
    assert.equal((await restarted.login('locked@example.com')).status, 429)
    await kill(restarted)
  })
}
