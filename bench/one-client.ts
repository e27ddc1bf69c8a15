// npm run bench:client: attempts per second that one client can make, and many clients, in front of a
// PostgreSQL whose commits wait for a standby. All attempts of a client change one row, one after the other.
import pg from 'pg'
import { openStore } from '../src/storage/open-store.ts'
import { makeScopes } from '../test/storage/fixtures.ts'
import { startPostgres } from '../test/support/postgres-server.ts'
import { describeMachine, machineLine } from './machine.ts'

const DELAYS_MS = [0, 1, 2, 5, 10]
/** The default of DATABASE_POOL_SIZE. */
const PARALLEL = 10
const SECONDS = 3
const UNLIMITED = { pair: 1e9, email: 1e9, client: 1e9 }

const primary = await startPostgres()
const standby = await primary.createStandby()
const [onPrimary, onStandby] = [new pg.Client(primary.url), new pg.Client(standby.url)]
await Promise.all([onPrimary.connect(), onStandby.connect()])
const store = await openStore({
  engine: 'postgres',
  url: primary.url,
  poolSize: PARALLEL,
})
await store.migrations.apply()
const print = (line: string) => process.stdout.write(`${line}\n`)

print(machineLine(describeMachine()))
print('delay of the standby   attempts/s of one client   of many clients   one ÷ many')
for (const delayMs of DELAYS_MS) {
  await set(onStandby, 'recovery_min_apply_delay', `${delayMs}ms`)
  await set(onPrimary, 'synchronous_commit', delayMs === 0 ? 'on' : 'remote_apply')
  await set(onPrimary, 'synchronous_standby_names', delayMs === 0 ? '' : '*')
  await measure(() => 'warm-up', 0.5)
  const one = await measure(() => `one client, ${delayMs}`, SECONDS)
  const many = await measure(() => undefined, SECONDS)
  const cells = [delayMs === 0 ? 'none' : `${delayMs} ms`, one.toFixed(0), many.toFixed(0)]
  print(`${cells.map(cell => cell.padStart(20)).join('')}${(one / many).toFixed(2).padStart(14)}`)
}
await set(onPrimary, 'synchronous_standby_names', '')
await store.close()
await Promise.all([onPrimary.end(), onStandby.end()])
await standby.stop()
await primary.stop()

/** Attempts per second: a reservation and a failure each, with an email that no other attempt has. */
async function measure(client: () => string | undefined, seconds: number): Promise<number> {
  const endsAt = performance.now() + seconds * 1_000
  let count = 0
  const attempt = async () => {
    while (performance.now() < endsAt) {
      const scopes = makeScopes(undefined, client(), UNLIMITED)
      await store.attempts.reserve(scopes, 'unknown@example.com', new Date())
      await store.attempts.fail(scopes, null, new Date())
      count++
    }
  }
  await Promise.all(Array.from({ length: PARALLEL }, attempt))
  return count / seconds
}

async function set(client: pg.Client, name: string, value: string): Promise<void> {
  await client.query(`alter system set ${name} = '${value}'`)
  await client.query('select pg_reload_conf()')
  // Other processes notice the change a moment later.
  await client.query('select pg_sleep(0.2)')
}
