// Loaded before a service by `--import`: a disk that takes long to sync. While the file SLOW_DISK exists, a
// commit of SQLite blocks its thread, for at most the milliseconds that the file contains.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { StatementSync } from 'node:sqlite'

const CHECK_EVERY_MS = 10
const cell = new Int32Array(new SharedArrayBuffer(4))

/** The environment of a service with such a disk. */
export function withSlowDisk(file: string): Record<string, string> {
  const hook = join(import.meta.dirname, 'slow-disk.ts')
  return { NODE_OPTIONS: `--import=${hook}`, SLOW_DISK: file }
}

/** 0 if the disk is not slow. */
function readDelayMs(file: string): number {
  try {
    return Number(readFileSync(file, 'utf8'))
  } catch {
    return 0
  }
}

const { SLOW_DISK } = process.env
if (SLOW_DISK) {
  for (const name of ['all', 'run'] as const) {
    const original = StatementSync.prototype[name]
    Reflect.set(
      StatementSync.prototype,
      name,
      function (this: StatementSync, ...values: unknown[]) {
        const startMs = performance.now()
        while (this.sourceSQL === 'commit' && performance.now() - startMs < readDelayMs(SLOW_DISK))
          Atomics.wait(cell, 0, 0, CHECK_EVERY_MS)
        return Reflect.apply(original, this, values)
      },
    )
  }
}
