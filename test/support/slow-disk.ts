// Loaded before a service by `--import`: a disk that takes long to sync. While SLOW_DISK is a FIFO, a commit
// of SQLite blocks its thread in a system call, as a disk does, until it has read a byte. While it is a file, each
// commit takes the milliseconds that the file contains.
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StatementSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { hasCode } from '../../src/system/files.ts'

/** The environment of a service with such a disk. */
export function withSlowDisk(file: string): Record<string, string> {
  const hook = join(import.meta.dirname, 'slow-disk.ts')
  return { NODE_OPTIONS: `--import=${hook}`, SLOW_DISK: file }
}

/** From now on, no commit ends. */
export async function stallDisk(file: string): Promise<void> {
  await promisify(execFile)('mkfifo', [file])
}

/** Waits until a commit blocks its thread. */
export async function waitForCommit(file: string): Promise<void> {
  while (!fs.existsSync(blocked(file))) await sleep(20)
}

/** Waits for a commit and lets it end. */
export async function endOneCommit(file: string): Promise<void> {
  for (;;) {
    try {
      const fifo = fs.openSync(file, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK)
      fs.writeSync(fifo, 'x')
      fs.closeSync(fifo)
      return
    } catch (error) {
      // No thread has opened the FIFO for reading.
      if (!hasCode(error, 'ENXIO')) throw error
    }
    await sleep(20)
  }
}

/** Lets commits end again. */
export async function releaseDisk(file: string): Promise<void> {
  // For reading and writing: opening it does not block.
  const fifo = await open(file, 'r+')
  await rm(file)
  // A byte for each thread that reads. There are fewer.
  await fifo.write('x'.repeat(100))
  await fifo.close()
}

/** Exists while a commit blocks its thread. */
function blocked(file: string): string {
  return `${file}.blocked`
}

function waitForDisk(file: string): void {
  const stats = fs.statSync(file, { throwIfNoEntry: false })
  if (stats?.isFIFO()) {
    fs.writeFileSync(blocked(file), '')
    const fifo = fs.openSync(file, 'r+')
    fs.readSync(fifo, Buffer.alloc(1))
    fs.closeSync(fifo)
    fs.rmSync(blocked(file), { force: true })
  } else if (stats) Atomics.wait(cell, 0, 0, Number(fs.readFileSync(file, 'utf8')))
}

const cell = new Int32Array(new SharedArrayBuffer(4))
const { SLOW_DISK } = process.env
if (SLOW_DISK) {
  for (const name of ['all', 'run'] as const) {
    const original = StatementSync.prototype[name]
    Reflect.set(
      StatementSync.prototype,
      name,
      function (this: StatementSync, ...values: unknown[]) {
        if (this.sourceSQL === 'commit') waitForDisk(SLOW_DISK)
        return Reflect.apply(original, this, values)
      },
    )
  }
}
