// An output of the log that cannot be written until there is room again.
import { Writable } from 'node:stream'

export function createFullDisk() {
  const written: string[] = []
  let isFull = true
  const output = Object.assign(new Writable(), {
    write(line: string, done: (error: Error | null) => void) {
      if (!isFull) written.push(line)
      process.nextTick(done, isFull ? new Error('ENOSPC: no space left on device') : null)
      return true
    },
  })
  return {
    output,
    written,
    makeRoom() {
      isFull = false
    },
  }
}
