// The test command: starts one PostgreSQL for all files, runs them in a few processes, and prints the failures
// in full. Each process runs several files one after the other, because loading the service takes a second.
// `npm test -- FILE …` runs some files, and `--slow` runs the slow suites. With `--again`, a file in which a test
// failed runs once more, alone, because a machine that is far too busy fails tests; it says so in the end.
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync, readFileSync, statSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { prepareTests, TEST_FLAGS } from './support/prepare.ts'
import { IS_FULL } from './support/proof.ts'
import type { Ended, Figures } from './support/reporter.ts'
import { createSummary } from './support/summary.ts'

/** Many tests wait for a limit of the service, so there are more processes than cores. */
const PROCESSES = 5
/** So many bundles of files that processes end at about the same time, and few starts of processes. */
const BUNDLES = 10
/** Slow files have a process each. Some take a hundred times as long as others. */
const SLOW_PROCESSES = 5

const SLOW = '.slow.test.ts'
/** Slow tests that need no disk. The others have a disk, synced commits and the threads of a real service. */
const IN_MEMORY = /^test\/(admin\/(doctor-running|races)|docs|import|operation|storage|throttle)/
/** Suites that compare times or start many processes run one after the other, with two other files beside them. */
const ONE_BY_ONE =
  /^test\/(http\/parser-costs|login\/(enumeration|overload|timing)|system\/cluster\/(?!failover))/
const BESIDE_THEM = 2
/** These take the longest, because they wait. */
const FIRST =
  /cluster\/failover|installing\.test|faults\/requests|operation\/(clocks|crash|database|faults|start)/

/** A process in which no test ends within this time is killed. The slowest test needs a tenth of it. */
const SILENCE_LIMIT_MS = (15 + longestTestMinutes()) * 60_000

const { values: options, positionals: given } = parseArgs({
  allowPositionals: true,
  options: { slow: { type: 'boolean' }, again: { type: 'boolean' } },
})
const isSlow = options.slow || given.some(file => file.endsWith(SLOW))
const named = given.length > 0 ? globSync(given) : options.slow ? slowFiles() : usualFiles()
// Large files take longer on average.
const weightOf = (file: string) => (FIRST.test(file) ? 1e6 : 0) + statSync(file).size
const files = named.toSorted((a, b) => weightOf(b) - weightOf(a))
if (files.length === 0) throw new Error(`no file matches ${given.join(' ')}`)

const isAlone = (file = '') => file.endsWith(SLOW) && !IN_MEMORY.test(file)
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

const hasOwnProcess = (file: string) => file.endsWith(SLOW) || file.startsWith('test/system/')
const bundles = [
  ...files.filter(hasOwnProcess).map(file => [file]),
  ...inBundles(files.filter(file => !hasOwnProcess(file))),
]
const isInChain = ([file = '']: string[]) => ONE_BY_ONE.test(file)
const others = bundles.filter(bundle => !isInChain(bundle))
const chain = runAll(bundles.filter(isInChain), 1)
const processes = isSlow ? SLOW_PROCESSES : PROCESSES
await Promise.all([
  runAll(others, BESIDE_THEM),
  chain.then(() => runAll(others, processes - BESIDE_THEM)),
])
if (options.again) await runAll(summary.takeFailed(), 1)
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
    ...(isSlow && { TEST_LONG: '1' }),
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
    else summary.add(message, bundle)
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
  return Math.max(Number(process.env.PROOF_SOAK_MINUTES ?? 0), IS_FULL ? 60 : 0)
}

function usualFiles(): string[] {
  const files = globSync(['src/**/*.test.ts', 'test/**/*.test.ts'])
  return files.filter(file => !file.endsWith(SLOW) && !/^test\/(browser|system)\//.test(file))
}

/** The slow suites, and those that run on another engine than in `npm test`. */
function slowFiles(): string[] {
  const onOtherEngine = usualFiles().filter(file =>
    readFileSync(file, 'utf8').includes('ENGINES_BY_RUN'),
  )
  return [...globSync(`test/**/*${SLOW}`), ...onOtherEngine]
}

/** Deals the files out, so that each bundle has large and small ones. */
function inBundles(all: string[]): string[][] {
  const count = Math.min(all.length, BUNDLES)
  return Array.from({ length: count }, (_, bundle) =>
    all.filter((_, index) => index % count === bundle),
  )
}
