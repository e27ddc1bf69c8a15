// What ends a start, or makes it log a warning.
import { Failure } from './admin/failures.ts'
import { messageOf } from './files.ts'
import type { Finding } from './finding.ts'
import type { Log } from './log/log.ts'

/** Turns a rejection into a Failure that begins with `what`. */
export function failStart(what: string) {
  return (error: unknown): never => {
    throw new Failure(`${what}: ${messageOf(error)}`)
  }
}

/** Refuses to start with a problem, and logs a warning. */
export function actOn({ state, detail }: Finding, log: Log): void {
  if (state === 'problem') throw new Failure(`${detail}.`)
  if (state === 'warning') log.warn({ event: 'service.warning' }, detail)
}
