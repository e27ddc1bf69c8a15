// Where log lines go: in batches, and in a bounded amount of memory while nobody reads them.
import type { Writable } from 'node:stream'

/** Some thousand lines: what a busy service logs in several seconds. */
const MAX_HELD_BYTES = 1_048_576

/**
 * What one turn of the event loop logs is written at its end, at once: in a flood the writes would
 * cost more than the refusals. What cannot be written, as on a full disk, or finds no room because
 * the reader has stalled, is lost: it must not fail or delay the login that it is about.
 */
export function createLogOutput(output: Writable, tellLost: (lines: number) => void) {
  let lines: string[] = []
  let heldBytes = 0
  let lostLines = 0
  let isTelling = false

  function flush(): void {
    if (lines.length === 0) return
    const batch = lines
    lines = []
    const text = batch.join('')
    output.write(text, error => {
      heldBytes -= Buffer.byteLength(text)
      if (error) lostLines += batch.length
      else if (lostLines > 0) tell()
    })
  }

  /** There is room again. The line that tells of it is never lost for want of room. */
  function tell(): void {
    const lost = lostLines
    lostLines = 0
    isTelling = true
    tellLost(lost)
    isTelling = false
  }
  process.once('exit', flush)

  return (line: string): void => {
    const bytes = Buffer.byteLength(line)
    if (heldBytes + bytes > MAX_HELD_BYTES && !isTelling) {
      lostLines++
      return
    }
    heldBytes += bytes
    if (lines.push(line) === 1) setImmediate(flush)
  }
}
