// Measures "users import": rows per second, peak memory, and logins while it runs.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import bcrypt from 'bcrypt'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { digestOf } from '../../src/system/identifiers.ts'
import { runClosedLoop } from '../closed-loop.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { useRunFolder } from '../processes.ts'
import { CHEAP_COST, PASSWORD, rightLogins } from '../seed.ts'
import { CHEAP, deploy, LAUNCH, PROJECT } from '../service.ts'
import { quantile } from '../statistics.ts'

const ENGINES: EngineName[] = ['sqlite', 'postgres']
const LOGGED_IN_USERS = 100
const LOGIN_LANES = 2
const POLL_MS = 100
/** Just below 256 MiB, the most that is read. */
const LARGEST_ROWS = 2_540_000

type Found = {
  engine: EngineName
  seconds: number
  rowsPerSecond: number
  peakMiB: number
  largest: Awaited<ReturnType<typeof runImport>>
  loginsAlone: number[]
  loginsBeside: number[]
  failedLogins: number
}

export async function measureImport({ isQuick, progress }: Run): Promise<Findings> {
  const rows = isQuick ? 100_000 : 1_000_000
  progress(`${rows} rows are written to a file`)
  const file = await writeUsers(rows, 'example.org')
  const besideFile = await writeUsers(rows / 10, 'example.net')
  const largestFile = await writeUsers(isQuick ? rows : LARGEST_ROWS, 'example.com')
  const found: Found[] = []
  for (const engine of ENGINES) {
    progress(`${engine}: import`)
    found.push(await measureEngine(engine, rows, { file, besideFile, largestFile }))
  }
  return toFindings(found, rows)
}

/** Emails in no order, as they come from another database. */
async function writeUsers(rows: number, domain: string): Promise<string> {
  const file = join(useRunFolder(), `${domain}.csv`)
  const output = createWriteStream(file)
  const hash = await bcrypt.hash(PASSWORD, CHEAP_COST)
  output.write('email,name,role,passwordHash\n')
  for (let row = 0; row < rows; row++) {
    const line = `${digestOf(String(row)).slice(0, 12)}@${domain},Number ${row},user,${hash}\n`
    if (!output.write(line)) await once(output, 'drain')
  }
  output.end()
  await once(output, 'finish')
  return file
}

/** The whole file alone, for the speed; then the smaller one, while users log in; then the largest that is read. */
async function measureEngine(
  engine: EngineName,
  rows: number,
  { file, besideFile, largestFile }: Record<'file' | 'besideFile' | 'largestFile', string>,
): Promise<Found> {
  const deployment = await deploy(engine, LOGGED_IN_USERS)
  const { config } = deployment.database
  const env = {
    ...CHEAP,
    DATA_DIR: deployment.dataDir,
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
  }
  const service = await deployment.start(CHEAP)
  const logins = (durationMs: number) =>
    runClosedLoop({
      target: service.target,
      connections: LOGIN_LANES,
      durationMs,
      request: rightLogins(LOGGED_IN_USERS, CHEAP_COST),
    })
  const timesOf = (lanes: Awaited<ReturnType<typeof logins>>) =>
    lanes.flat().map(({ startedMs, endedMs }) => endedMs - startedMs)
  const alone = await logins(3_000)
  const { seconds, peakMiB } = await runImport(file, env)
  const beside: Awaited<ReturnType<typeof logins>> = []
  let isRunning = true
  const second = runImport(besideFile, env).finally(() => {
    isRunning = false
  })
  while (isRunning) beside.push(...(await logins(1_000)))
  await second
  const largest = await runImport(largestFile, env)
  await deployment.remove()
  return {
    ...{ engine, seconds, rowsPerSecond: rows / seconds, peakMiB, largest },
    loginsAlone: timesOf(alone),
    loginsBeside: timesOf(beside),
    failedLogins: beside.flat().filter(({ status }) => status !== 200).length,
  }
}

/** As src/command.cjs runs it, without the process between. */
async function runImport(file: string, env: Record<string, string>) {
  const [node = '', ...main] = LAUNCH
  const startMs = performance.now()
  const child = spawn(node, [...main, 'users', 'import', file], {
    cwd: PROJECT,
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  let peakMiB = 0
  const ended = once(child, 'exit')
  while (child.exitCode === null && child.signalCode === null) {
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '')
    peakMiB = Math.max(peakMiB, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024)
    await Promise.race([sleep(POLL_MS), ended])
  }
  if (child.exitCode !== 0) throw new Error(`the import ended with ${child.exitCode}`)
  return { seconds: (performance.now() - startMs) / 1_000, peakMiB }
}

function toFindings(found: Found[], rows: number): Findings {
  return {
    title: 'import of users',
    tables: [
      {
        title: `"users import" of ${rows.toLocaleString('en')} rows of CSV, in random order; logins at cost ${CHEAP_COST}`,
        head: [
          ...['engine', 'rows/s', 'time', 'peak memory', 'login p50, alone', 'p99, alone'],
          ...['p50, beside an import', 'p99, beside', 'failed logins'],
          ...['time, 256 MiB', 'peak memory, 256 MiB'],
        ],
        rows: found.map(each => [
          each.engine,
          fixed(each.rowsPerSecond),
          `${fixed(each.seconds, 1)} s`,
          `${fixed(each.peakMiB)} MiB`,
          ...[each.loginsAlone, each.loginsBeside].flatMap(times =>
            [0.5, 0.99].map(share => `${fixed(quantile(times, share), 1)} ms`),
          ),
          String(each.failedLogins),
          `${fixed(each.largest.seconds, 1)} s`,
          `${fixed(each.largest.peakMiB)} MiB`,
        ]),
      },
    ],
    targets: found.flatMap(({ engine, seconds, peakMiB }) => [
      {
        name: `1,000,000 rows, ${engine}`,
        figure: (seconds * 1_000_000) / rows,
        digits: 0,
        unit: 's',
        is: 'below' as const,
        limit: 50,
      },
      {
        name: `peak memory, ${engine}`,
        figure: peakMiB,
        digits: 0,
        unit: 'MiB',
        is: 'below' as const,
        limit: 500,
      },
    ]),
  }
}
