// Faults of PostgreSQL under Patroni, while logins and refreshes go on at two instances.
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { createDeployment, type ServiceProcess, until } from '../../support/process.ts'
import { type Answer, type Call, PASSWORD, UNLIMITED } from '../../support/service.ts'
import { startLoad } from './load.ts'
import { type Node, type PatroniCluster, startPatroni } from './patroni.ts'

const EMAILS = Array.from({ length: 4 }, (_, index) => `user${index}@example.com`)
const SESSIONS_EACH = 5
/** Logs in to see when the service is back. */
const PROBE = 'probe@example.com'
/** How the instances reach the primary, one instance each: the address of a database by its name. */
const WAYS: ((cluster: PatroniCluster, database: string) => string)[] = [
  // Through HAProxy, which asks Patroni for the primary.
  ({ server }, database) => server.replace(/[^/]*$/, database),
  // The instance finds the primary itself.
  ({ nodes }, database) => {
    const hosts = nodes.map(({ address }) => address)
    return `postgres://postgres@${hosts.join(',')}/${database}?target_session_attrs=read-write`
  },
]
/** A failure is answered within 2 s, and the service is back within 2 s, on a machine that is not busy. */
const WITHIN_MS = 10_000
const STANDBY_SILENT_MS = 10_000
const PROMOTED_WITHIN_MS = 120_000

type Fault = {
  title: string
  begin: (primary: Node, standby: Node) => Promise<unknown>
  /** Waits while the fault lasts, and ends it. */
  end?: (primary: Node, standby: Node) => unknown
  isPromoting?: boolean
  /** The service is without a database so long that its readiness must show it. */
  isLong?: boolean
}

const FAULTS: Fault[] = [
  {
    title: 'the primary is killed',
    begin: primary => primary.signal('SIGKILL'),
    end: primary => primary.start(),
    ...{ isPromoting: true, isLong: true },
  },
  {
    title: 'the standby takes over by a switchover',
    begin: primary => primary.switchOver(),
    isPromoting: true,
  },
  {
    title: 'the primary freezes, is replaced, and wakes up',
    begin: primary => primary.signal('SIGSTOP'),
    end: primary => primary.wake(),
    ...{ isPromoting: true, isLong: true },
  },
  {
    title: 'the synchronous standby confirms nothing for 10 s',
    begin: (_, standby) => signalReceiver(standby, 'SIGSTOP'),
    async end(_, standby) {
      await setTimeout(STANDBY_SILENT_MS)
      await signalReceiver(standby, 'SIGCONT')
    },
    isLong: true,
  },
  {
    title: 'the primary is read-only',
    begin: primary => setReadOnly(primary, 'on'),
    end: primary => setReadOnly(primary, 'off'),
    isLong: true,
  },
]

describe('PostgreSQL under Patroni', async () => {
  const opened = new AsyncDisposableStack()
  after(() => opened.disposeAsync())
  const cluster = opened.adopt(await startPatroni(), ({ stop }) => stop())
  await cluster.healthy()
  // A login that the fault interrupts may count as a failure.
  const env = { ...UNLIMITED, MAX_SESSIONS_PER_USER: '1000' }
  const created = await createDeployment('postgres', env, cluster.server)
  const deployment = opened.adopt(created, ({ remove }) => remove())
  for (const email of [...EMAILS, PROBE]) await deployment.addUser(email)
  const [{ name } = {}] = await deployment.database.rows('select current_database() as name')
  const instances = await Promise.all(
    WAYS.map(way => deployment.start({ DATABASE_URL: way(cluster, String(name)) })),
  )

  for (const fault of FAULTS) {
    test(`${fault.title}: nothing acknowledged is lost, no session ends, and the service recovers`, async t => {
      const { primary, standby } = await cluster.healthy()
      await until(areReady)
      let calls = 0
      const load = startLoad(
        request => {
          const instance = instances[calls++ % instances.length]
          assert.ok(instance)
          return callOnce(instance, request)
        },
        EMAILS,
        SESSIONS_EACH,
      )
      try {
        await until(async () => load.answeredAt.length > 100)
        await prove(fault, primary, standby, t)
      } finally {
        await load.stop()
      }
      await load.assertKept(deployment.database, t)
      const slowestMs = Math.max(0, ...load.failures.map(({ ms }) => ms))
      t.diagnostic(`the slowest failure was answered after ${seconds(slowestMs)}`)
      assert.deepEqual(
        load.failures.filter(({ status }) => status !== 500 && status !== 503),
        [],
      )
      assert.ok(slowestMs < WITHIN_MS)
    })
  }

  const readiness = () => Promise.all(instances.map(({ health }) => health('/readyz')))
  const areReady = async () => (await readiness()).every(status => status === 200)

  async function prove(fault: Fault, primary: Node, standby: Node, t: TestContext) {
    const beganAt = performance.now()
    await fault.begin(primary, standby)
    if (fault.isLong) await until(async () => (await readiness()).every(status => status === 503))
    if (fault.isPromoting) {
      await until(async () => {
        const [row] = await standby.query('select pg_is_in_recovery() as is_standby')
        return row?.is_standby === false
      }, PROMOTED_WITHIN_MS)
    } else await fault.end?.(primary, standby)
    const restoredAt = performance.now()
    const body = { email: PROBE, password: PASSWORD }
    const answers = async (instance: ServiceProcess) =>
      (await callOnce(instance, { body })).status === 200
    await Promise.all(instances.map(instance => until(() => answers(instance))))
    const recoveredMs = performance.now() - restoredAt
    t.diagnostic(
      `${fault.isPromoting ? 'promoted' : 'restored'} after ${seconds(restoredAt - beganAt)}; ` +
        `all instances log users in ${seconds(recoveredMs)} later`,
    )
    assert.ok(recoveredMs < WITHIN_MS)
    if (fault.isPromoting) await fault.end?.(primary, standby)
    await cluster.healthy()
    await until(areReady)
  }
})

/** On a new connection: an idle one may be closed while a request is on its way. */
function callOnce(instance: ServiceProcess, request: Call): Promise<Answer> {
  return instance.call({ ...request, headers: { Connection: 'close' } })
}

async function signalReceiver(standby: Node, signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
  const [receiver] = await standby.query('select pid from pg_stat_wal_receiver')
  process.kill(Number(receiver?.pid), signal)
}

async function setReadOnly(primary: Node, value: 'on' | 'off'): Promise<void> {
  await primary.query(`alter system set default_transaction_read_only = ${value}`)
  await primary.query('select pg_reload_conf()')
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
