// npm run bench:lists [-- --engine postgres --rows 1000000]: fills the users and the throttle, and prints how long
// the lists of an administrator take and how much memory their commands need.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { listThrottle } from '../src/admin/operations/read-throttle.ts'
import { USER_STATES, type UserFilter } from '../src/domain/user.ts'
import { limitsOf } from '../src/login/scopes.ts'
import { openStore } from '../src/storage/open-store.ts'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { MAIN } from '../test/support/cli.ts'
import { describeMachine, machineLine } from './machine.ts'
import { endRun, useRunFolder } from './processes.ts'
import { createProgress } from './progress.ts'
import { openForBulk } from './seed.ts'
import { deploy } from './service.ts'
import { median } from './statistics.ts'

const ROWS_AT_A_TIME = 50_000
const PAGE = 1_000
const DAY_MS = 86_400_000
const BUDGETS = { pair: 5, email: 20, client: 50, network: 500 }

const { values } = parseArgs({
  options: {
    engine: { type: 'string', default: 'sqlite' },
    rows: { type: 'string', default: '1000000' },
  },
})
const engine: EngineName = values.engine === 'postgres' ? 'postgres' : 'sqlite'
const rowCount = Number(values.rows)
const now = new Date()

useRunFolder()
const progress = createProgress()
const print = (line: string) => process.stdout.write(`${line}\n`)
print(machineLine(describeMachine()))
const deployment = await deploy(engine)
const { config } = deployment.database
await fill()
const store = await openStore(config)

print(`${engine}: ${rowCount} users, ${rowCount} rows of the throttle`)
const filters: UserFilter[] = [
  {},
  { role: 'admin' },
  ...USER_STATES.map(state => ({ state })),
  { search: 'needle' },
]
for (const filter of filters) {
  const firstMs: number[] = []
  for (let i = 0; i < 5; i++) {
    const startMs = performance.now()
    await store.users.list(filter, { after: '', limit: PAGE }, now)
    firstMs.push(performance.now() - startMs)
  }
  const callsMs: number[] = []
  let users = 0
  for (let after: string | null = ''; after !== null; ) {
    const startMs = performance.now()
    const page = await store.users.list(filter, { after, limit: PAGE }, now)
    callsMs.push(performance.now() - startMs)
    users += page.users.length
    after = page.next
  }
  print(
    `${JSON.stringify(filter).padEnd(22)} first page ${ms(firstMs[0])}, again ${ms(median(firstMs))}, longest ${ms(Math.max(...callsMs))}, all ${users} in ${callsMs.length} calls and ${ms(callsMs.reduce((a, b) => a + b, 0))}`,
  )
}
const throttleMs = [performance.now()]
await listThrottle({ store, clock: () => now, budgets: BUDGETS }, 20)
throttleMs.push(performance.now())
await store.throttle.listClients(limitsOf(BUDGETS), now)
throttleMs.push(performance.now())
const [startMs = 0, listedMs = 0, readMs = 0] = throttleMs
print(`throttle: ${ms(listedMs - startMs)}, of which its clients ${ms(readMs - listedMs)}`)

for (const args of [
  ['users', 'list', '--limit', '20'],
  ['users', 'list', '--search', 'needle'],
  ['users', 'list'],
  ['throttle', 'list'],
]) {
  const { tookMs, peakMiB } = await runCommand(args)
  print(`${args.join(' ').padEnd(28)} ${ms(tookMs)}, at most ${peakMiB} MiB`)
}
await store.close()
await deployment.remove()
await endRun(0)

function ms(value = Number.NaN): string {
  return value < 1_000 ? `${value.toFixed(1)} ms` : `${(value / 1_000).toFixed(2)} s`
}

/**
 * 1 % admins, 1 % inactive, 1 % locked, 1 % waiting; 5 % logged in lately; half of the throttle's rows count pairs.
 */
async function fill(): Promise<void> {
  const isSqlite = engine === 'sqlite'
  const { run, close } = await openForBulk(config)
  const hex = (digits: number) =>
    isSqlite ? `printf('%0${digits}x', i)` : `lpad(to_hex(i::bigint), ${digits}, '0')`
  // Spread over the whole range, like digests.
  const digest = (kind: string) =>
    `${isSqlite ? `printf('%08x', i * 2654435761 % 4294967296)` : `lpad(to_hex((i::bigint * 2654435761) % 4294967296), 8, '0')`} || '${kind}' || ${hex(55)}`
  const time = (offsetMs: number) => {
    const text = `'${new Date(now.getTime() + offsetMs).toISOString()}'`
    return isSqlite ? text : `${text}::timestamptz`
  }
  for (let first = 1; first <= rowCount; first += ROWS_AT_A_TIME) {
    const last = Math.min(first + ROWS_AT_A_TIME - 1, rowCount)
    const series = `with recursive n(i) as (select ${first} union all select i + 1 from n where i < ${last})`
    await run([
      `insert into users (email, password_hash, name, role, is_active, locked_until, locked_by,
          updated_at, last_login_at) ${series}
        select 'user' || i || '@example.com', '$2b$12$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
          case when i = ${rowCount} then 'Needle' else 'User ' || i end,
          case when i % 100 = 0 then 'admin' else 'user' end, i % 100 <> 1,
          case when i % 100 in (2, 3) then ${time(600_000)} end,
          case when i % 100 = 2 then 'throttle' when i % 100 = 3 then 'administrator' end,
          ${time(-30 * DAY_MS)}, case when i % 20 = 4 then ${time(-600_000)} end from n`,
      `insert into login_throttle (key, scope, email_digest, failures, pending, lease_ends_at,
          window_ends_at, expires_at) ${series}
        select ${digest('k')}, case i % 4 when 0 then 'email' when 1 then 'client' else 'pair' end,
          case when i % 4 <> 1 then ${digest('e')} end, i % 5, 0, ${time(0)}, ${time(900_000)},
          ${time(900_000)} from n`,
    ])
    progress(`${last} rows inserted`)
  }
  await close()
}

async function runCommand(args: string[]): Promise<{ tookMs: number; peakMiB: number }> {
  const env = {
    ...process.env,
    DATA_DIR: deployment.dataDir,
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
  }
  const startMs = performance.now()
  const child = spawn(process.execPath, [MAIN, ...args], { env, stdio: 'ignore' })
  let peakKiB = 0
  const polling = setInterval(async () => {
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '')
    peakKiB = Math.max(peakKiB, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0))
  }, 20)
  const [code] = await once(child, 'close')
  clearInterval(polling)
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`)
  return { tookMs: performance.now() - startMs, peakMiB: Math.round(peakKiB / 1024) }
}
