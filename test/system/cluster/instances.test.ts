// Three instances on one PostgreSQL behind HAProxy: what holds for one instance holds for all together.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import pg from 'pg'
import { PURGE_LOCK } from '../../../src/storage/postgres/engine.ts'
import { own } from '../../support/own.ts'
import {
  createDeployment,
  PROJECT,
  run,
  type ServiceProcess,
  until,
} from '../../support/process.ts'
import { createAddresses } from '../../support/service.ts'
import { startWire } from '../../support/wire.ts'
import { BEHIND_BALANCER, chooseTargets, startBalancer } from './balancer.ts'
import { startLoad } from './load.ts'

const SESSIONS_EACH = 4

describe('three instances behind HAProxy', async () => {
  const deployment = await own(
    createDeployment('postgres', { ...BEHIND_BALANCER, MAX_SESSIONS_PER_USER: '1000' }),
  )
  await deployment.database.rows('drop schema public cascade; create schema public')
  const wire = await startWire(deployment.env.DATABASE_URL ?? '')
  after(wire.stop)
  const targets = await chooseTargets(3)
  // All start at once on an empty database.
  const instances = await Promise.all(
    targets.map(({ port, opsPort }, index) =>
      deployment.start({
        PORT: port,
        OPS_PORT: opsPort,
        ...(index === 2 && { DATABASE_URL: wire.url }),
      }),
    ),
  )
  const { call } = await startBalancer('haproxy', targets)
  const nextAddress = createAddresses()

  const countLines = (event: string) =>
    instances.flatMap(({ lines }) => lines()).filter(line => line.event === event).length
  const admin = (...args: string[]) =>
    run(deployment.env, {
      command: [process.execPath, `${PROJECT}/launch.cjs`, 'src/main.ts', ...args],
    })

  test('one process purges at a time', async () => {
    const { rows } = deployment.database
    await call({ body: { email: 'unknown@example.com', password: 'wrong' } })
    await rows(`update login_throttle set expires_at = now() - interval '1 hour'`)
    const countExpired = async () =>
      (await rows('select 1 from login_throttle where expires_at < now()')).length
    const expired = await countExpired()
    assert.ok(expired > 0)
    const purge = () => admin('database', 'purge')
    const lock = new pg.Client(deployment.env.DATABASE_URL)
    await lock.connect()
    await lock.query(`select pg_advisory_lock(${PURGE_LOCK})`)
    const refused = [purge(), purge(), purge()]
    for (const { exit, output } of refused) {
      assert.equal((await exit).code, 1)
      assert.match(output(), /^A service is purging this database now/)
    }
    await lock.end()
    assert.equal(await countExpired(), expired)
    for (const { exit, output } of [purge(), purge(), purge()]) {
      await exit
      assert.match(output(), /^A service is purging|admin\.database_purged/)
    }
    assert.equal(await countExpired(), 0)
    assert.equal(countLines('purge.failed'), 0)
  })

  const FAULTS: [string, (last: ServiceProcess) => unknown, (last: ServiceProcess) => unknown][] = [
    ['is frozen', last => last.kill('SIGSTOP'), last => last.kill('SIGCONT')],
    ['loses its packets to the database', () => wire.cut(), () => wire.mend()],
  ]
  for (const [index, [fault, begin, end]] of FAULTS.entries()) {
    test(`one instance ${fault}: the others go on, and it is used again afterwards`, async t => {
      const last = instances[2]
      assert.ok(last)
      const emails = [`fault${index}a@example.com`, `fault${index}b@example.com`]
      for (const email of emails) await deployment.addUser(email)
      const logins = () => last.lines().filter(line => line.event === 'login.succeeded').length
      const load = startLoad(
        request => call({ ...request, from: nextAddress() }),
        emails,
        SESSIONS_EACH,
      )
      try {
        const isUsed = async (since: number) => logins() > since
        const earlier = logins()
        await until(() => isUsed(earlier))
        const beganAt = performance.now()
        begin(last)
        // Failures are over when many requests in a row succeed.
        const lastFailureAt = () => load.failures.at(-1)?.endedAt ?? beganAt
        await until(async () => load.answeredAt.filter(at => at > lastFailureAt()).length > 200)
        const during = logins()
        end(last)
        await until(() => isUsed(during))
        await load.stop()
        const recoveredMs = lastFailureAt() - beganAt
        t.diagnostic(`the last failure was ${(recoveredMs / 1000).toFixed(1)} s after the fault`)
        await load.assertKept(deployment.database, t)
      } finally {
        end(last)
        await load.stop()
      }
    })
  }
})
