// How long a bcrypt round takes on this machine, with npm bcrypt and with each kernel of src/bcrypt for each number of
// hashes at a time; and what the service chooses at its start.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import { instantiate, KERNEL_NAMES, roundsOf } from '../../src/bcrypt/lanes.js'
import { MAX_LANES } from '../../src/bcrypt/memory.js'
import { type Findings, fixed, type Run, type Table, tally } from '../findings.ts'
import { type HashingStart, startHashing } from '../hashing-start.ts'
import { start } from '../processes.ts'
import { PROJECT } from '../service.ts'
import { median } from '../statistics.ts'

const LANE_COUNTS = Array.from({ length: MAX_LANES }, (_, i) => i + 1)
const DURATION_MS = 6_000
/** Short, so that other load interrupts only some of the measurements. */
const ROUNDS = 8
const SETTING = `$2b$04$${'.'.repeat(22)}`
/** 16, and what takes as long in the beginning and the end of a hash: 521 and 192 blocks, of 1042 per round. */
const NATIVE_ROUNDS = 16 + (521 + 192) / 1042
const BUSY_PROCESSES = [0, 1, 2, 4]
const STARTS = 10

export async function measureKernel(run: Run): Promise<Findings> {
  return {
    title: 'bcrypt rounds',
    tables: [measureRounds(run), await measureChoice(run)],
    targets: [],
  }
}

function measureRounds({ isQuick, progress }: Run): Table {
  progress('rounds')
  const file = join(PROJECT, 'src/bcrypt/kernel.wasm')
  const kernel = instantiate(new WebAssembly.Module(readFileSync(file)))
  for (const count of LANE_COUNTS) kernel.begin(count - 1)
  const native = measure(NATIVE_ROUNDS, () => bcrypt.hashSync('password', SETTING))
  const kernels = KERNEL_NAMES.map(name => {
    const counts = LANE_COUNTS.map(count => {
      const run = roundsOf(kernel, name, count)
      return measure(ROUNDS, () => run(ROUNDS))
    })
    return { name, counts }
  })

  // In turn, so that other load affects all of them.
  const all = [native, ...kernels.flatMap(({ counts }) => counts)]
  const endMs = performance.now() + DURATION_MS / (isQuick ? 6 : 1)
  while (performance.now() < endMs) for (const each of all) each.repeat()

  const toRow = (name: string, roundMs: number[]) => {
    const perHash = Math.min(...roundMs.map((ms, i) => ms / (i + 1)))
    const cells = LANE_COUNTS.map(count => fixed(roundMs[count - 1] ?? Number.NaN, 4))
    return [name, ...cells, fixed(perHash, 4), fixed(native.roundMs() / perHash, 2)]
  }
  return {
    title: 'Milliseconds per round of all hashes of one thread, by their number',
    head: ['', ...LANE_COUNTS.map(String), 'per hash at best', 'throughput ÷ npm bcrypt'],
    rows: [
      toRow('npm bcrypt', [native.roundMs()]),
      ...kernels.map(({ name, counts }) =>
        toRow(
          name,
          counts.map(each => each.roundMs()),
        ),
      ),
    ],
  }
}

/** The fastest of many repetitions. */
function measure(rounds: number, run: () => unknown) {
  let bestMs = Number.POSITIVE_INFINITY
  return {
    roundMs: () => bestMs / rounds,
    repeat() {
      const beganMs = performance.now()
      run()
      bestMs = Math.min(bestMs, performance.now() - beganMs)
    },
  }
}

async function measureChoice({ isQuick, progress }: Run): Promise<Table> {
  const rows: string[][] = []
  for (const count of BUSY_PROCESSES) {
    progress(`starts beside ${count} busy processes`)
    const busy = Array.from({ length: count }, () =>
      start([process.execPath, '-e', 'for(;;);'], {}),
    )
    const found: HashingStart[] = []
    for (let i = 0; i < (isQuick ? 2 : STARTS); i++) found.push(await startHashing())
    await Promise.all(busy.map(({ stop }) => stop()))
    rows.push([
      String(count),
      tally(found.map(({ lanes }) => lanes)),
      `${fixed(median(found.map(({ openMs }) => openMs)))} ms`,
      `${fixed(median(found.map(({ bytes }) => bytes)) / 2 ** 20, 1)} MiB`,
    ])
  }
  return {
    title: 'What is chosen at the start, beside other busy processes',
    head: ['busy processes', 'starts × hashes at a time per thread', 'time', 'memory'],
    rows,
  }
}
