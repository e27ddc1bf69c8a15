// An instance that hangs inside the transaction of an attempt holds the locks of its rows. PostgreSQL ends its session
// after a second, so that other instances wait no longer for these rows, and an attempt that was pending stays pending: it
// counts as a failure when its lease ends.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import pg from 'pg'
import { clientScopes, emailScope } from '../../src/login/scopes.ts'
import { openPatientStore } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import { createDeployment, until } from '../support/process.ts'
import { startWire } from '../support/wire.ts'

const WRONG = 'wrong password'
/** Longer than a lease, shorter than a window. */
const LATER_MS = 120_000
const BUDGETS = { pair: 5, email: 20, client: 50, network: 500 }
const CLIENT = { group: '127.0.0.1', network: null }

describe('an instance that hangs inside a transaction', async () => {
  const deployment = await createDeployment('postgres')
  const { database } = deployment
  const wire = await own(startWire(deployment.env.DATABASE_URL ?? ''))
  const [hung, second, third] = await inParallel(3, index =>
    deployment.start(index === 0 ? { DATABASE_URL: wire.url } : {}),
  )
  assert.ok(hung && second && third)
  const store = await openPatientStore(database.config)
  const holder = new pg.Client(deployment.env.DATABASE_URL)
  await holder.connect()
  after(async () => {
    await Promise.all([holder.end(), store.close()])
    await deployment.remove()
  })

  /** The sessions at the server that wait for a row that this test has locked. */
  const findWaiting = async () =>
    (await database.rows(`select pid from pg_stat_activity
      where ${Object(holder).processID} = any (pg_blocking_pids(pid))`)) as { pid: number }[]
  const stateOf = async (pid: number) =>
    (await database.rows(`select state from pg_stat_activity where pid = ${pid}`))[0]?.state
  const readCounts = () =>
    database.rows(`select scope, failures, pending from login_throttle
      where scope in ('client', 'email') order by scope`)

  const FAULTS: [string, begin: () => unknown, end: () => unknown][] = [
    ['is stopped', () => hung.kill('SIGSTOP'), () => hung.kill('SIGCONT')],
    ['loses its network to the database', () => wire.cut(), () => wire.mend()],
  ]
  /** `row`: the attempt waits for it, and then has locked all others too. `pending`: what is left of the attempt. */
  const TRANSACTIONS: { title: string; row: string; pending: number }[] = [
    { title: 'reserves an attempt', row: 'login_throttle', pending: 0 },
    { title: 'settles a failure', row: 'users', pending: 1 },
  ]
  for (const [index, [fault, begin, end]] of FAULTS.entries()) {
    for (const { title, row, pending } of TRANSACTIONS) {
      test(`${fault} while it ${title}: the others answer, and nothing is lost`, async () => {
        await database.rows('delete from login_throttle')
        const email = `${row}${index}@example.com`
        await deployment.addUser(email)
        assert.equal((await second.login(email, WRONG)).status, 401)

        await holder.query('begin')
        await holder.query(`select from ${row} for update`)
        const answer = hung.login(email, WRONG)
        await until(async () => (await findWaiting()).length > 0)
        const [{ pid } = { pid: 0 }] = await findWaiting()
        try {
          begin()
          await holder.query('rollback')
          await until(async () => (await stateOf(pid)) !== 'active')
          // If the machine is very slow, the server has ended the session already.
          assert.match(String(await stateOf(pid)), /^(idle in transaction|undefined)/)
          const answers = [second.login(email), third.login(email, WRONG)]
          const statuses = (await Promise.all(answers)).map(({ status }) => status)
          assert.deepEqual(statuses, [200, 401])
          await until(async () => (await stateOf(pid)) === undefined)
          await assertCounted(email, 2, pending)
        } finally {
          end()
        }
        assert.equal((await answer).status, 500)
        await until(async () => (await hung.login(email)).status === 200)
        await assertCounted(email, 2, pending)
      })
    }
  }

  /** Of the email and of the client. A pending attempt counts as a failure later. */
  async function assertCounted(email: string, failures: number, pending: number): Promise<void> {
    const counts = ['client', 'email'].map(scope => ({ scope, failures, pending }))
    assert.deepEqual(await readCounts(), counts)
    const scopes = [emailScope(email, BUDGETS), ...clientScopes(CLIENT, BUDGETS)]
    const states = await store.throttle.read(scopes, new Date(Date.now() + LATER_MS))
    const later = { failures: failures + pending, pending: 0 }
    assert.partialDeepStrictEqual(states, [later, later])
  }
})
