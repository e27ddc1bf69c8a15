// How long a bcrypt round takes on this machine, with npm bcrypt and with each kernel of src/bcrypt for one, two
// and three hashes at a time.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import { instantiate, KERNEL_NAMES, roundsOf } from '../../src/bcrypt/lanes.js'
import { LANE_BYTES } from '../../src/bcrypt/memory.js'
import { type Findings, fixed, type Run } from '../findings.ts'
import { PROJECT } from '../service.ts'

const LANE_COUNTS = [1, 2, 3]
const DURATION_MS = 6_000
/** Short, so that other load interrupts only some of the measurements. */
const ROUNDS = 8
const SETTING = `$2b$04$${'.'.repeat(22)}`
/** 16, and what takes as long in the beginning and the end of a hash: 521 and 192 blocks, of 1042 per round. */
const NATIVE_ROUNDS = 16 + (521 + 192) / 1042

export async function measureKernel({ isQuick, progress }: Run): Promise<Findings> {
  progress('rounds')
  const file = join(PROJECT, 'src/bcrypt/kernel.wasm')
  const kernel = instantiate(new WebAssembly.Module(readFileSync(file)))
  const lanes = LANE_COUNTS.map(count => count - 1)
  for (const lane of lanes) kernel.begin(lane * LANE_BYTES)
  const native = measure(NATIVE_ROUNDS, () => bcrypt.hashSync('password', SETTING))
  const kernels = KERNEL_NAMES.map(name => {
    const counts = LANE_COUNTS.map(count => {
      const run = roundsOf(kernel, name, lanes.slice(0, count))
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
    title: 'bcrypt rounds',
    tables: [
      {
        title: 'Milliseconds per round of all hashes of one thread',
        head: ['', 'one hash', 'two', 'three', 'per hash at best', 'throughput ÷ npm bcrypt'],
        rows: [
          toRow('npm bcrypt', [native.roundMs()]),
          ...kernels.map(({ name, counts }) =>
            toRow(
              name,
              counts.map(each => each.roundMs()),
            ),
          ),
        ],
      },
    ],
    targets: [],
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
