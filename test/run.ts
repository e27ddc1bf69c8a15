// The test command: starts one PostgreSQL for all files, runs them in a few processes, and prints the failures
// in full. Each process runs several files one after the other, because loading the service takes a second.
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync, readFileSync, statSync } from 'node:fs'
import { prepareTests, TEST_FLAGS } from './prepare.ts'
import type { Ended, Figures } from './reporter.ts'
import { createSummary } from './summary.ts'

type Suite = {
  /** How many processes run at once. Many tests wait for a limit of the service, so more than the cores. */
  processes: number
  filesPerProcess: number
  /** With large sizes, and the engine that `npm test` leaves out: see `ENGINES_BY_RUN`. */
  isLong?: boolean
}

/** All files at once: another bundle would begin when the others end. */
const USUAL: Suite = { processes: 5, filesPerProcess: 50 }
/** Those in test/long/ have a process each, with a disk, synced commits and the threads of a real service. */
const LONG: Suite = { processes: 4, filesPerProcess: 8, isLong: true }
/** Long suites that compare times run first, one after the other, with one other suite beside them. */
const COMPARES_TIMES = /^test\/long\/(admin-load|enumeration|overload|parser-costs|timing)\./
/** A file starts up to ten processes. */
const CLUSTER: Suite = { processes: 1, filesPerProcess: 1 }
/** Some files take a hundred times as long as others. */
const PROOF: Suite = { processes: 4, filesPerProcess: 1 }

const USUAL_FILES = ['src/**/*.test.ts', 'test/storage/*.contract.ts', 'test/*.test.ts']
/** A process in which no test ends within this time is killed. The slowest test needs a tenth of it. */
const SILENCE_LIMIT_MS = (15 + longestTestMinutes()) * 60_000

const given = process.argv.slice(2)
const suite = suiteOf(given)
const patterns = given[0] === '--long' ? longFiles() : given.length > 0 ? given : USUAL_FILES
// Large files take longer on average.
const files = globSync(patterns).toSorted((a, b) => statSync(b).size - statSync(a).size)
if (files.length === 0) throw new Error(`no file matches ${patterns.join(' ')}`)

const isAlone = (file = '') => suite.isLong && file.startsWith('test/long/')
const inMemory = files.every(isAlone) ? null : await prepareTests()
const onDisk = files.some(isAlone) ? await prepareTests(true) : null
const summary = createSummary(files.length)
const running = new Set<ChildProcess>()
let isInterrupted = false
// A signal to the process group reaches the tests directly. This process stays to stop PostgreSQL.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    isInterrupted = true
    for (const child of running) child.kill(signal)
  })
}

const bundles = [
  ...files.filter(isAlone).map(file => [file]),
  ...inBundles(files.filter(file => !isAlone(file))),
]
const isTimed = ([file = '']: string[]) => COMPARES_TIMES.test(file)
const others = bundles.filter(bundle => !isTimed(bundle))
const timed = runAll(bundles.filter(isTimed), 1)
await Promise.all([runAll(others, 1), timed.then(() => runAll(others, suite.processes - 1))])
process.exitCode = summary.print() ? 0 : 1
await inMemory?.end()
await onDisk?.end()

/** Takes bundles from the list until it is empty. */
async function runAll(waiting: string[][], processes: number): Promise<void> {
  await Promise.all(
    Array.from({ length: processes }, async () => {
      for (let next = waiting.shift(); next && !isInterrupted; next = waiting.shift()) {
        await runBundle(next)
      }
    }),
  )
}

function envOf([file]: string[]): NodeJS.ProcessEnv {
  return {
    ...(isAlone(file) ? { ...onDisk?.env, TEST_THREADS: '1' } : inMemory?.env),
    ...(suite.isLong && { TEST_LONG: '1' }),
  }
}

/** Runs the files in one process. What they leave open does not keep it from ending. */
async function runBundle(bundle: string[]): Promise<void> {
  const child = spawn(process.execPath, [...TEST_FLAGS, ...bundle], {
    env: envOf(bundle),
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  running.add(child)
  const giveUp = () => {
    summary.fail(bundle, `no test has ended for ${SILENCE_LIMIT_MS / 60_000} minutes`)
    child.kill('SIGKILL')
  }
  const silence = setTimeout(giveUp, SILENCE_LIMIT_MS)
  let hasReported = false
  child.on('message', (message: Ended | Figures | 'done') => {
    silence.refresh()
    if (message === 'done') hasReported = true
    else if ('figures' in message) summary.show(message.figures)
    else summary.add(message)
  })
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>(resolve =>
    child.once('exit', (...end) => resolve(end)),
  )
  clearTimeout(silence)
  running.delete(child)
  summary.end(bundle)
  if (!hasReported) summary.fail(bundle, `the process ended with ${code ?? signal}`)
}

/** Of a soak, and of all faults of all migrations. */
function longestTestMinutes(): number {
  const { PROOF, PROOF_SOAK_MINUTES = 0 } = process.env
  return Math.max(Number(PROOF_SOAK_MINUTES), PROOF === 'full' ? 60 : 0)
}

function suiteOf(patterns: string[]): Suite {
  const isIn = (folder: string) => patterns.some(pattern => pattern.startsWith(folder))
  if (isIn('--long') || isIn('test/long/')) return LONG
  if (isIn('test/proof/')) return PROOF
  return isIn('test/cluster/') ? CLUSTER : USUAL
}

/** The long suites, and those that run on another engine than in `npm test`. */
function longFiles(): string[] {
  const onOtherEngine = globSync('test/*.test.ts').filter(file =>
    readFileSync(file, 'utf8').includes('ENGINES_BY_RUN'),
  )
  return ['test/long/*.test.ts', ...onOtherEngine]
}

/** Deals the files out, so that each bundle has large and small ones. A few files are spread over all processes. */
function inBundles(all: string[]): string[][] {
  const count = Math.max(
    Math.ceil(all.length / suite.filesPerProcess),
    Math.min(all.length, suite.processes),
  )
  return Array.from({ length: count }, (_, bundle) =>
    all.filter((_, index) => index % count === bundle),
  )
}
