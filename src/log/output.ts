// Writes log lines, and holds a bounded amount of text while the reader of the log has stalled.
import type { Writable } from 'node:stream'

/** About as much as a busy service logs in several seconds. */
const MAX_HELD_BYTES = 1_048_576

/**
 * A line that cannot be written, because the disk is full or the reader has stalled, is lost: it must not
 * fail or delay the login that it is about. `reportLost` is called once lines can be written again.
 */
export function createLogOutput(output: Writable, reportLost: (lines: number) => void) {
  let lostLines = 0
  let reportedLines = 0

  function onWritten(error?: Error | null): void {
    if (error) lostLines++
    else if (lostLines > reportedLines && output.writableLength < MAX_HELD_BYTES / 2) {
      const lines = lostLines - reportedLines
      reportedLines = lostLines
      reportLost(lines)
    }
  }

  return {
    write(line: string): void {
      const bytes = Buffer.from(line)
      // With a Buffer, `writableLength` counts bytes; with text, a pipe counts characters.
      if (output.writableLength + bytes.length > MAX_HELD_BYTES) lostLines++
      else output.write(bytes, onWritten)
    },
    countLost: () => lostLines,
  }
}
