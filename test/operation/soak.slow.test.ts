// A service at half of its capacity, while certificates are renewed, keys and the log rotated, and rows purged: no wrong
// answer, no line lost or broken, and in the end as many descriptors as in the beginning. How memory and tables grow is
// reported, not judged. PROOF_SOAK_MINUTES=60 is the whole form.
import assert from 'node:assert/strict'
import {
  copyFileSync,
  globSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import bcrypt from 'bcrypt'
import { makeCertificate, servedAt } from '../support/certificates.ts'
import { createCli } from '../support/cli.ts'
import { ENGINES, type TestDatabase } from '../support/engines.ts'
import { type Series, scrape } from '../support/metrics.ts'
import { inParallel } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { createDeployment, type Line, runOwned, SERVE, stop, until } from '../support/process.ts'
import { type Answer, type Call, createClient, PASSWORD, WITH_THREADS } from '../support/service.ts'
import { AUTH, bearer } from '../support/session-client.ts'

const MINUTES = Number(process.env.PROOF_SOAK_MINUTES ?? 0.15)
const DURATION_MS = MINUTES * 60_000
const CAPACITY_MS = Math.min(DURATION_MS / 6, 30_000)
const SAMPLES = 120
/** How often certificate, keys and log are renewed, and rows purged. */
const RENEWALS = MINUTES > 1 ? 4 : 2
const COST = 12
const HOST = '127.0.0.1'
/** The errors of a machine that is busy with other work. */
const TIME_LIMITS = /time ?out|in time|slow|^service\.killed$/

const USERS = 200
/** Rounds at the same time. */
const PARALLEL = 8
const REFRESHES = 8
/** One round in four begins with a wrong password. */
const WRONG_EVERY = 4
/** What is answered when a time limit is over, on a machine that is busy with other work. */
const TOO_LATE = [500, 503]
const MIB = 1_048_576
const HOUR_S = 3_600
const emailOf = (user: number) => `user${user}@example.com`

const DESCRIPTORS = 'process_open_fds'
/** As the report names them, with their metrics and units; "tables" and "wal" are read from the database. */
const FIGURES: [name: string, metric: string, unit: number][] = [
  ['resident memory, MiB', 'process_resident_memory_bytes', MIB],
  ['heap in use, MiB', 'nodejs_heap_size_used_bytes', MIB],
  ['descriptors', DESCRIPTORS, 1],
  ['handles of the event loop', 'nodejs_active_handles_total', 1],
  ['lag of the event loop (p99), ms', 'nodejs_eventloop_lag_p99_seconds', 0.001],
  ['tables and indexes, MiB', 'tables', MIB],
  ['write-ahead log, MiB', 'wal', MIB],
]
type Sample = { second: number; series: Series }

/** The lines of the two parts of the report. */
const report: { loads: string[]; rows: string[] } = { loads: [], rows: [] }

describe('at half of the capacity', { concurrency: true }, () => {
  for (const engine of ENGINES) {
    test(`nothing fails and nothing is left open on ${engine}`, async () => {
      const certificates = await inParallel(RENEWALS + 1, () => makeCertificate({ ip: HOST }))
      const threads = { ...WITH_THREADS, TLS_CERT_FILE: 'set below' }
      const deployment = await createDeployment(engine, threads)
      const cli = await createCli(deployment.database)
      const passwordHash = await bcrypt.hash(PASSWORD, COST)
      for (let user = 0; user < USERS; user++) await deployment.addUser(emailOf(user), passwordHash)
      const inFolder = (name: string) => join(cli.folder, name)
      const [log, trusted] = [inFolder('service.log'), inFolder('trusted.pem')]
      const env = {
        ...deployment.env,
        ...{ TLS_CERT_FILE: inFolder('cert.pem'), TLS_KEY_FILE: inFolder('key.pem') },
        SIGNING_KEYS_FILE: inFolder('signing-keys.json'),
        BCRYPT_COST: String(COST),
        ...{ PORT: String(await freePort()), OPS_PORT: String(await freePort()) },
      }
      const install = (index: number) => {
        writeFileSync(env.TLS_CERT_FILE, certificates[index]?.cert ?? '')
        writeFileSync(env.TLS_KEY_FILE, certificates[index]?.key ?? '', { mode: 0o600 })
      }
      install(0)
      writeFileSync(trusted, certificates.map(({ cert }) => cert).join('\n'))
      const command = ['sh', '-c', `exec "$@" >> ${log}`, 'sh', ...SERVE]
      const service = runOwned(env, { command })
      after(cli.remove)
      after(deployment.remove)
      const sample = async (second: number): Promise<Sample> => {
        const { tables, wal } = await bytesOf(deployment.database)
        const series = await scrape(env.OPS_PORT)
        return { second, series: series.set('tables', tables).set('wal', wal) }
      }
      await until(() => isReady(env.OPS_PORT))
      const descriptors = async () => Number((await scrape(env.OPS_PORT)).get(DESCRIPTORS))
      const idle = await descriptors()

      const url = `https://${HOST}:${env.PORT}`
      const client = await createClient(url, '', trusted)
      const counts: Counts = { rounds: 0, logins: 0, wrong: 0, logouts: 0, others: 0, late: 0 }
      await runRounds(client.call, counts, CAPACITY_MS)
      // A login that was refused is no capacity.
      const roundsPerSecond = Math.max(1, counts.logins) / (CAPACITY_MS / 1_000) / 2
      const lateAtCapacity = counts.late

      const samples: Sample[] = []
      const load = runRounds(client.call, counts, DURATION_MS, roundsPerSecond)
      let isOver = false
      const watching = (async () => {
        const startMs = performance.now()
        while (!isOver) {
          samples.push(await sample((performance.now() - startMs) / 1_000))
          await sleep(DURATION_MS / SAMPLES)
        }
      })()
      const renewing = (async () => {
        for (let renewal = 1; renewal <= RENEWALS && !isOver; renewal++) {
          install(renewal)
          await until(async () => (await servedAt(url)) === certificates[renewal]?.fingerprint)
          for (const words of ['keys rotate', 'database purge']) {
            const { code, stderr } = await cli.run(words.split(' '), '', env)
            assert.equal(code, 0, stderr)
          }
          // As "copytruncate" of logrotate does.
          copyFileSync(log, `${log}.${renewal}`)
          truncateSync(log)
          service.kill('SIGHUP')
          await sleep(DURATION_MS / RENEWALS / 2)
        }
      })()
      await load
      isOver = true
      await Promise.all([watching, renewing])
      const series = await scrape(env.OPS_PORT)
      assert.equal(series.get('login_attempts_total{outcome="succeeded"}'), counts.logins)
      assert.equal(series.get('login_attempts_total{outcome="failed"}'), counts.wrong)
      assert.ok(Number(series.get('sessions_ended_total{reason="logout"}')) >= counts.logouts)
      assert.equal(series.get('log_lines_lost_total'), 0)
      assert.ok(await isReady(env.OPS_PORT))

      client.close()
      await until(async () => (await descriptors()) <= idle)
      await stop(service)
      const events = globSync(`${log}*`).flatMap(eventsIn)
      const errors = events.filter(({ level, count }) => level === 'error' && !count)
      for (const { event, err } of errors) assert.match(err?.message ?? event, TIME_LIMITS)
      assert.ok(events.some(({ event }) => event === 'keys.reloaded'))
      assert.ok(events.some(({ event }) => event === 'service.stopped'))
      const { rounds, logins, wrong, logouts, others, late } = counts
      report.loads.push(
        `- ${engine}: ${roundsPerSecond.toFixed(1)} rounds per second, ${rounds} in all: ${logins} logins, ${wrong} wrong passwords, ${logouts} logouts, ${others} other requests; ${late - lateAtCapacity} answers of a time limit, and ${lateAtCapacity} more while the capacity was measured.`,
      )
      for (const [name, metric, unit] of FIGURES) {
        const [mean, perHour] = trendOf(samples, metric).map(it => (it / unit).toFixed(1))
        report.rows.push(`| ${engine} | ${name} | ${mean} | ${perHour} |`)
      }
    })
  }
})

after(() => {
  const head = [
    '',
    '| engine | figure | mean of the second half | growth per hour |',
    '|---|---|--:|--:|',
  ]
  process.stdout.write(`\n${[...report.loads, ...head, ...report.rows].join('\n')}\n`)
})

async function isReady(opsPort: string): Promise<boolean> {
  const answer = await fetch(`http://${HOST}:${opsPort}/readyz`).catch(() => null)
  return answer?.status === 200
}

/** Fails if a line is not whole. */
function eventsIn(file: string): Line[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.filter(line => line !== '').map(line => JSON.parse(line))
}

/** The answers of each kind; `late` are those of time limits, after which a round ends. */
type Counts = Record<'rounds' | 'logins' | 'wrong' | 'logouts' | 'others' | 'late', number>

/** Runs rounds until the deadline, each of another user and address. Fails on every answer that is not the expected one. */
async function runRounds(
  send: (call: Call) => Promise<Answer>,
  counts: Counts,
  durationMs: number,
  roundsPerSecond = Number.POSITIVE_INFINITY,
): Promise<void> {
  const startMs = performance.now()
  let started = 0
  async function runInTurn(): Promise<void> {
    for (;;) {
      const dueMs = (started++ / roundsPerSecond) * 1_000
      if (dueMs >= durationMs || performance.now() - startMs >= durationMs) return
      await sleep(Math.max(0, dueMs - (performance.now() - startMs)))
      await runRound(send, counts)
    }
  }
  await inParallel(PARALLEL, runInTurn)
}

async function runRound(send: (call: Call) => Promise<Answer>, counts: Counts): Promise<void> {
  const round = counts.rounds++
  const user = round % USERS
  const from = `127.3.${user + 1}.1`
  const ask = async (kind: keyof Counts, status: number, call: Call): Promise<Answer | null> => {
    const answer = await send({ from, ...call })
    const isLate = TOO_LATE.includes(answer.status)
    if (!isLate) assert.equal(answer.status, status, `${kind} ${call.path}: ${answer.text}`)
    counts[isLate ? 'late' : kind]++
    return isLate ? null : answer
  }
  const attempt = (password: string) => ({ body: { email: emailOf(user), password } })
  // Another round of each user, because the number of users is a multiple.
  if ((round + Math.floor(round / USERS)) % WRONG_EVERY === 0) {
    await ask('wrong', 401, attempt('wrong password'))
  }
  let answer = await ask('logins', 200, attempt(PASSWORD))
  for (let refresh = 0; answer && refresh < REFRESHES; refresh++) {
    const { refreshToken } = answer.json.data
    answer = await ask('others', 200, { path: `${AUTH}/refresh`, body: { refreshToken } })
  }
  if (!answer) return
  const { accessToken, refreshToken } = answer.json.data
  const headers = bearer(accessToken)
  const session = { method: 'GET', path: `${AUTH}/session`, headers }
  const shown = await ask('others', 200, session)
  if (shown) assert.equal(shown.json.data.user.email, emailOf(user))
  await ask('others', 200, { method: 'GET', path: `${AUTH}/verify`, headers })
  if (!(await ask('logouts', 200, { path: `${AUTH}/logout`, body: { refreshToken } }))) return
  await ask('others', 401, { path: `${AUTH}/refresh`, body: { refreshToken } })
  await ask('others', 401, session)
}

async function bytesOf({ config, rows }: TestDatabase): Promise<{ tables: number; wal: number }> {
  if (config.engine === 'sqlite') {
    const sizeOf = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0
    return { tables: sizeOf(config.file), wal: sizeOf(`${config.file}-wal`) }
  }
  const [row] = await rows(`select pg_database_size(current_database()) as tables,
    (select sum(size) from pg_ls_waldir()) as wal`)
  return { tables: Number(row?.tables), wal: Number(row?.wal) }
}

/** The mean of the second half, and how much the figure grows in an hour by the line of least squares through it. */
function trendOf(samples: Sample[], metric: string): number[] {
  const half = samples
    .slice(Math.floor(samples.length / 2))
    .map(({ second, series }) => ({ second, value: Number(series.get(metric)) }))
  const meanOf = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const meanSecond = meanOf(half.map(({ second }) => second))
  const mean = meanOf(half.map(({ value }) => value))
  const covariance = meanOf(half.map(each => (each.second - meanSecond) * (each.value - mean)))
  const variance = meanOf(half.map(({ second }) => (second - meanSecond) ** 2))
  return [mean, (covariance / variance) * HOUR_S]
}
