// Tables of the first release. Its instances cannot use the next ones, so they must be stopped before.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { createDeployment, run, until } from '../process.ts'
import { addUser, migrate, migrationNames, useRelease } from '../upgrade/releases.ts'

const serveFirst = useRelease('first')

test('while an instance of the first release runs, its tables stay; then two processes update them at once', async t => {
  const deployment = await createDeployment('postgres', {}, undefined, false)
  t.after(() => deployment.remove())
  const first = await deployment.start({}, { command: serveFirst() })
  const email = await addUser(deployment)
  const statuses: number[] = []
  let isOver = false
  const load = Array.from({ length: 3 }, async () => {
    for (; !isOver; await setTimeout(100)) statuses.push((await first.login(email)).status)
  })
  await until(async () => statuses.length > 10)

  for (const refused of [migrate(deployment), run(deployment.env)]) {
    assert.deepEqual(await refused.exit, { code: 1, signal: null })
    assert.match(refused.output(), /Stop all of them.*pid \d+ \(login-service, .* for \d+ s\)/)
  }
  assert.deepEqual(await migrationNames(deployment), ['0001-initial'])
  isOver = true
  await Promise.all(load)
  assert.ok(statuses.includes(200))
  // A busy machine sheds a login with a 503.
  assert.ok(!statuses.includes(500))

  first.kill('SIGTERM')
  await first.exit
  const both = [migrate(deployment), migrate(deployment)]
  for (const { exit, output } of both) {
    assert.deepEqual(await exit, { code: 0, signal: null }, output())
  }
  const next = await deployment.start()
  assert.equal((await next.login(email)).status, 200)
})
