// A process that opens the hashing threads once and tells how many lanes they chose, how long that took and how much memory.
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { openLanes } from '../src/bcrypt/pool.ts'
import { start } from './processes.ts'

export type HashingStart = { lanes: number; openMs: number; bytes: number }

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
  const lanes = hasher.roundMs(0).length
  process.send?.({ lanes, openMs, bytes } satisfies HashingStart)
}
