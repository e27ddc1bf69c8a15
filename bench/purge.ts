// npm run bench:purge [-- --engine postgres --sessions 5000000 --tokens 4 --live 0.2]: fills a database with
// sessions, purges it as the service does, and prints the speed and how long it blocks other work.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { addRemoved, NONE_REMOVED } from '../src/domain/maintenance.ts'
import { openStore } from '../src/storage/open-store.ts'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { describeMachine, machineLine } from './machine.ts'
import { endRun, useRunFolder } from './processes.ts'
import { createProgress } from './progress.ts'
import { openForBulk } from './seed.ts'
import { deploy } from './service.ts'

const DAY_MS = 86_400_000
const SESSIONS_PER_USER = 50
const SESSIONS_AT_A_TIME = 50_000
/** The pause of the service between two calls. It is not counted in the rows per second. */
const PAUSE_MS = 100

const { values } = parseArgs({
  options: {
    engine: { type: 'string', default: 'sqlite' },
    sessions: { type: 'string', default: '5000000' },
    tokens: { type: 'string', default: '4' },
    live: { type: 'string', default: '0.2' },
  },
})
const engine: EngineName = values.engine === 'postgres' ? 'postgres' : 'sqlite'
const sessions = Number(values.sessions)
const tokensEach = Number(values.tokens)
const livePercent = Math.round(100 * Number(values.live))
const now = new Date()

useRunFolder()
const progress = createProgress()
process.stdout.write(`${machineLine(describeMachine())}\n`)
const deployment = await deploy(engine)
await fill()

const statementsMs: number[] = []
const batchesMs: number[] = []
const batchesCpuMs: number[] = []
timeStatements()
const store = await openStore(deployment.database.config)
const delay = monitorEventLoopDelay({ resolution: 1 })
const removed = { ...NONE_REMOVED }
const callsMs: number[] = []
let failure: unknown = null
delay.enable()
for (let isDone = false; !isDone; ) {
  const startMs = performance.now()
  const batch = await store.maintenance.purge(now).catch((error: unknown) => {
    failure = error
    return null
  })
  callsMs.push(performance.now() - startMs)
  if (!batch) break
  addRemoved(removed, batch)
  isDone = batch.isDone
  if (callsMs.length % 200 === 0) {
    progress(`${removed.sessions} sessions, ${removed.refreshTokens} tokens removed`)
    await sleep(PAUSE_MS)
  }
}
delay.disable()

const seconds = callsMs.reduce((sum, ms) => sum + ms, 0) / 1_000
const rows = removed.sessions + removed.refreshTokens
const print = (line: string) => process.stdout.write(`${line}\n`)
print(
  `${engine}: ${sessions} sessions, ${sessions * tokensEach} refresh tokens, ${livePercent} % live`,
)
print(`removed            ${removed.sessions} sessions, ${removed.refreshTokens} refresh tokens`)
print(
  `rows per second    ${Math.round(rows / seconds)} (${callsMs.length} calls, ${seconds.toFixed(1)} s)`,
)
print(`one call           ${spread(callsMs)}`)
if (engine === 'postgres') print(`one statement      ${spread(statementsMs)}`)
else {
  print(`one batch          ${spread(batchesMs)}`)
  print(`… on the processor ${spread(batchesCpuMs)}`)
}
const [heldMs, p99Ms] = [delay.max / 1e6, delay.percentile(99) / 1e6]
print(`event loop held    ${heldMs.toFixed(1)} ms at most, p99 ${p99Ms.toFixed(1)} ms`)
if (failure) print(`failed             ${failure}`)
await store.close()
await deployment.remove()
await endRun(failure ? 1 : 0)

/** Half of the sessions that are not live ended two days ago; the others expired a day ago. */
async function fill(): Promise<void> {
  const isSqlite = engine === 'sqlite'
  const { run, close } = await openForBulk(deployment.database.config)
  const hex = (value: string, digits: number) =>
    isSqlite
      ? `printf('%0${digits}x', ${value})`
      : `lpad(to_hex((${value})::bigint), ${digits}, '0')`
  // Multiplied by an odd factor modulo 2^32, so that the ids are spread like random ids.
  const uuid = (value: string, kind: string) =>
    `(${hex(`(${value}) * 2654435761 % 4294967296`, 8)} || '-${kind}-4000-8000-' || ${hex(value, 12)})${isSqlite ? '' : '::uuid'}`
  const time = (offsetMs: number) => {
    const text = `'${new Date(now.getTime() + offsetMs).toISOString()}'`
    return isSqlite ? text : `${text}::timestamptz`
  }
  const byState = (live: string, ended: string, expired: string) =>
    `case when i % 100 < ${livePercent} then ${live} when i % 2 = 0 then ${ended} else ${expired} end`
  const user = uuid(`i / ${SESSIONS_PER_USER}`, '0000')
  await run([
    `insert into users (id, email, password_hash, name)
      with recursive n(i) as (select 0 union all select i + 1 from n where i < ${sessions / SESSIONS_PER_USER})
      select ${uuid('i', '0000')}, 'user' || i || '@example.com', '', '' from n`,
  ])
  for (let first = 0; first < sessions; first += SESSIONS_AT_A_TIME) {
    const last = Math.min(first + SESSIONS_AT_A_TIME, sessions) - 1
    const series = `with recursive n(i) as (select ${first} union all select i + 1 from n where i < ${last})`
    const each = `each(k) as (select 0 union all select k + 1 from each where k < ${tokensEach - 1})`
    await run([
      `insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at, expires_at, ended_at,
          user_agent, ip)
        ${series} select ${uuid('i', '0001')}, ${user}, ${time(-9 * DAY_MS)}, ${time(-2 * DAY_MS)},
          ${byState(time(5 * DAY_MS), time(5 * DAY_MS), time(-DAY_MS))}, ${time(21 * DAY_MS)},
          ${byState('null', time(-2 * DAY_MS), 'null')}, 'Mozilla/5.0', '192.0.2.1' from n`,
      `insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at)
        ${series}, ${each} select ${uuid(`i * ${tokensEach} + k`, '0002')}, ${user}, ${uuid('i', '0001')},
          ${hex(`(i * ${tokensEach} + k) * 2654435761 % 4294967296`, 8)} || ${hex(`i * ${tokensEach} + k`, 56)},
          'seed', ${time(-2 * DAY_MS)}, ${byState(time(5 * DAY_MS), time(5 * DAY_MS), time(-DAY_MS))}
        from n, each`,
    ])
    if (first % (10 * SESSIONS_AT_A_TIME) === 0)
      progress(`${last + 1} of ${sessions} sessions inserted`)
  }
  progress('settling')
  await close()
}

/**
 * Wraps the driver. PostgreSQL limits the time per statement. SQLite blocks the event loop for a whole
 * transaction, so its processor time is measured too, which other load on the machine does not change.
 */
function timeStatements(): void {
  if (engine === 'postgres') {
    const { query } = pg.Client.prototype
    Reflect.set(pg.Client.prototype, 'query', function (this: unknown, ...parameters: unknown[]) {
      const startMs = performance.now()
      const note = () => {
        statementsMs.push(performance.now() - startMs)
      }
      const result = Reflect.apply(query, this, parameters)
      if (result instanceof Promise) result.then(note, note)
      return result
    })
    return
  }
  let [startMs, startCpuMs] = [0, 0]
  const { prepare } = DatabaseSync.prototype
  Reflect.set(DatabaseSync.prototype, 'prepare', function (this: unknown, sql: string) {
    const statement = Reflect.apply(prepare, this, [sql])
    for (const name of ['all', 'run'] as const) {
      const method = statement[name]
      Reflect.set(statement, name, (...parameters: unknown[]) => {
        if (sql.startsWith('begin')) [startMs, startCpuMs] = [performance.now(), threadCpuMs()]
        const result = Reflect.apply(method, statement, parameters)
        if (sql.startsWith('commit')) {
          batchesMs.push(performance.now() - startMs)
          batchesCpuMs.push(threadCpuMs() - startCpuMs)
        }
        return result
      })
    }
    return statement
  })
}

function spread(ms: number[]): string {
  const sorted = ms.toSorted((a, b) => a - b)
  const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? 0).toFixed(1)
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms`
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}
