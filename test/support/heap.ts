// Measures what stays in memory, for tests of code that must forget.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const RUNS = 3

/**
 * By how many bytes the action lets the heap grow, without garbage: the least of several runs. What the action keeps
 * is added by each run; what the rest of the process happens to keep, such as compiled code, is not.
 */
export async function heapGrowth(action: () => unknown): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collectGarbage: () => void = runInNewContext('gc')
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS; run++) {
    collectGarbage()
    const before = process.memoryUsage().heapUsed
    await action()
    collectGarbage()
    least = Math.min(least, process.memoryUsage().heapUsed - before)
  }
  return least
}
