// Upgrades of large tables, on PostgreSQL, while the older release serves logins.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { createDeployment, type ServiceProcess, timed, until } from '../process.ts'
import { addUser, migrate, useRelease } from '../upgrade/releases.ts'

const USERS = 20_000
const SESSIONS = 500_000

const serve = { first: useRelease('first'), previous: useRelease('previous') }

async function startLarge(t: TestContext, release: keyof typeof serve) {
  const deployment = await createDeployment('postgres', {}, undefined, false)
  t.after(() => deployment.remove())
  const service = await deployment.start({}, { command: serve[release]() })
  const { rows } = deployment.database
  await rows(`insert into users (email, password_hash, name)
    select 'user' || i || '@example.com', 'a hash', 'User' from generate_series(1, ${USERS}) i`)
  await rows(`insert into sessions (user_id, last_used_at, idle_expires_at, expires_at, user_agent, ip)
    select id, now(), now() + interval '7 days', now() + interval '30 days', 'a browser', '203.0.113.7'
    from users, generate_series(1, ${SESSIONS / USERS})`)
  return { deployment, service, email: await addUser(deployment) }
}

/** Three logins per second until the returned function is called, which returns their statuses. */
async function logInRepeatedly(service: ServiceProcess, email: string) {
  const statuses: number[] = []
  let isOver = false
  const load = Array.from({ length: 3 }, async () => {
    for (; !isOver; await setTimeout(1_000)) statuses.push((await service.login(email)).status)
  })
  await until(async () => statuses.length > 6)
  return async () => {
    isOver = true
    await Promise.all(load)
    return statuses
  }
}

test('beside the first release nothing is migrated, and its logins go on', async t => {
  const { deployment, service, email } = await startLarge(t, 'first')
  const stopLoad = await logInRepeatedly(service, email)
  for (let times = 0; times < 3; times++) {
    assert.deepEqual(await migrate(deployment).exit, { code: 1, signal: null })
  }
  const statuses = await stopLoad()
  assert.ok(statuses.includes(200))
  assert.ok(!statuses.includes(500), statuses.join(' '))

  service.kill('SIGTERM')
  await service.exit
  const { exit, output } = migrate(deployment)
  const { value, ms } = await timed(exit)
  assert.deepEqual(value, { code: 0, signal: null }, output())
  t.diagnostic(`without it, the migrations take ${Math.round(ms)} ms`)
})

test('beside the previous release the migrations end, and its logins go on', async t => {
  const { deployment, service, email } = await startLarge(t, 'previous')
  const stopLoad = await logInRepeatedly(service, email)
  const { exit, output } = migrate(deployment)
  const { value, ms } = await timed(exit)
  assert.deepEqual(value, { code: 0, signal: null }, output())
  const statuses = await stopLoad()
  assert.ok(statuses.includes(200))
  assert.ok(!statuses.includes(500), statuses.join(' '))
  t.diagnostic(`beside it, the migrations take ${Math.round(ms)} ms`)
})
