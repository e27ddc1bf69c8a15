// What ends a start, or makes it log a warning.

import type { Log } from '../log/log.ts'
import { Failure } from '../system/failures.ts'
import type { Finding } from '../system/finding.ts'

/** Turns a rejection into a Failure. */
export function failWith(explain: (error: unknown) => string) {
  return (error: unknown): never => {
    throw new Failure(explain(error))
  }
}

/** Refuses to start with a problem, and logs a warning. */
export function actOn(log: Log, ...findings: Finding[]): void {
  for (const { state, detail } of findings) {
    if (state === 'problem') throw new Failure(`${detail}.`)
    if (state === 'warning') log.warn({ event: 'service.warning' }, detail)
  }
}
