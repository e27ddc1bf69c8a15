// Counts the sessions that a command ends, and tells how far it is if that takes long.
import type { OnEnded } from '../storage/store.ts'
import type { Terminal } from './terminal.ts'

/** A command that takes longer says what it is doing. */
export const SILENT_MS = 1_000

export function countEnded(terminal: Terminal): { onEnded: OnEnded; ended: () => number } {
  const startedMs = performance.now()
  let count = 0
  return {
    onEnded({ length }) {
      count += length
      if (performance.now() - startedMs > SILENT_MS) {
        terminal.progress(`Ended ${count} sessions so far …`)
      }
    },
    ended: () => count,
  }
}
