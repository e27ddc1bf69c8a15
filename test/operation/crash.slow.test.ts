// The state of logins and of the throttle after the process was killed by SIGKILL.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { kill } from '../support/crash-cycles.ts'
import { ENGINES, type Row } from '../support/engines.ts'
import { createDeployment, type Deployment, until } from '../support/process.ts'
import { PASSWORD, UNLIMITED, WITH_THREADS } from '../support/service.ts'

// Both engines at the same time: starting processes takes most of the time.
describe('after kill -9', { concurrency: true }, () => {
  for (const engine of ENGINES) {
    describe(`on ${engine}`, { concurrency: false }, () => proveCrashes(engine))
  }
})

function proveCrashes(engine: EngineName): void {
  let deployment: Deployment
  before(async () => {
    deployment = await createDeployment(engine, WITH_THREADS)
  })
  after(() => deployment.remove())

  const throttleRows = (): Promise<Row[]> =>
    deployment.database.rows('select scope, failures, pending from login_throttle order by scope')

  test('an attempt that was being verified stays pending and becomes a failure', async () => {
    await deployment.addUser('slow@example.com')
    const budget = { THROTTLE_PAIR_FAILURES: '1' }
    let answer: unknown
    // An attempt that was over before the kill is tried again with a slower hash.
    for (const cost of [13, 14, 15]) {
      await deployment.database.rows('delete from login_throttle')
      const killed = await deployment.start({ BCRYPT_COST: String(cost), ...budget })
      const login = killed.login('slow@example.com', 'wrong password').catch(() => 'cut off')
      await until(async () => (await throttleRows()).length === 3)
      await kill(killed)
      answer = await login
      if ((await throttleRows()).some(({ pending }) => pending === 1)) break
    }
    assert.equal(answer, 'cut off')
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

  test('a change of the password has left the old one or the new one, and an answered one the new one', async () => {
    const emails = ['a', 'b', 'c', 'd'].map(name => `${name}@example.com`)
    for (const email of emails) await deployment.addUser(email)
    const killed = await deployment.start(UNLIMITED)
    let answered = 0
    const changing = emails.map(async email => {
      for (let current = PASSWORD, i = 0; ; i++) {
        const newPassword = `${email} number ${i}`
        const body = { email, currentPassword: current, newPassword }
        const answer = await killed.call({ path: '/api/v1/auth/password', body }).catch(() => null)
        if (!answer) return { email, current, newPassword }
        assert.equal(answer.status, 200)
        current = newPassword
        answered++
      }
    })
    await until(async () => answered >= 20)
    await kill(killed)
    const restarted = await deployment.start(UNLIMITED)
    for (const { email, current, newPassword } of await Promise.all(changing)) {
      const answers = [
        await restarted.login(email, current),
        await restarted.login(email, newPassword),
      ]
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 401])
    }
    await kill(restarted)
  })
}
