// What ends a start, or makes it log a warning.
import { messageOf } from './files.ts'
import type { Finding } from './finding.ts'
import type { Log } from './log/log.ts'

/** An error that the operator can fix. It is shown without a stack trace. */
export class StartError extends Error {}

/** Turns a rejection into a StartError that begins with `what`. */
export function failStart(what: string) {
  return (error: unknown): never => {
    throw new StartError(`${what}: ${messageOf(error)}`)
  }
}

/** Refuses to start with a problem, and logs a warning. */
export function actOn({ state, detail }: Finding, log: Log): void {
  if (state === 'problem') throw new StartError(`${detail}.`)
  if (state === 'warning') log.warn({ event: 'service.warning' }, detail)
}
