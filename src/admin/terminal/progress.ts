// How far a command is, if it takes long: the sessions that it ends, or the rows that it removes.
import type { OnEnded } from '../../domain/user.ts'
import type { Terminal } from './terminal.ts'

/** A command that takes longer says what it is doing. */
const SILENT_MS = 1_000

export function createProgress(terminal: Terminal): (sentence: string) => void {
  const startedMs = performance.now()
  return sentence => {
    if (performance.now() - startedMs > SILENT_MS) terminal.progress(sentence)
  }
}

export function countEnded(terminal: Terminal): { onEnded: OnEnded; ended: () => number } {
  const tell = createProgress(terminal)
  let count = 0
  return {
    onEnded({ length }) {
      count += length
      tell(`Ended ${count} sessions so far …`)
    },
    ended: () => count,
  }
}
