// A process that opens the hashing threads once and tells what they chose, how long that took and how much memory.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fasterKernel } from '../src/bcrypt/faster-kernel.ts'
import { openLanes } from '../src/bcrypt/pool.ts'
import { start } from './processes.ts'
import { PROJECT } from './service.ts'

export const KERNEL_FILE = join(PROJECT, 'src/bcrypt/kernel.wasm')

export type HashingStart = { kernel: string; lanes: number[]; openMs: number; bytes: number }

export async function startHashing(): Promise<HashingStart> {
  const command = [process.execPath, fileURLToPath(import.meta.url)]
  const { child, stop } = start(command, {}, { hasChannel: true })
  const found = await new Promise<HashingStart>((resolve, reject) => {
    child.once('message', (message: HashingStart) => resolve(message))
    child.once('exit', () => reject(new Error('the process that measures a start has ended')))
  })
  await stop()
  return found
}

if (import.meta.main) {
  const bytesBefore = process.memoryUsage.rss()
  const beganMs = performance.now()
  const hasher = await openLanes(availableParallelism(), error => {
    throw error
  })
  const openMs = performance.now() - beganMs
  const bytes = process.memoryUsage.rss() - bytesBefore
  const lanes = Array.from({ length: hasher.threads }, (_, thread) => hasher.roundMs(thread).length)
  const kernel = fasterKernel(new WebAssembly.Module(readFileSync(KERNEL_FILE)))
  process.send?.({ kernel, lanes, openMs, bytes } satisfies HashingStart)
}
