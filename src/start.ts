// Errors of the start that the operator can fix.

/** An error that the operator can fix. It is shown without a stack trace. */
export class StartError extends Error {}

/** Turns a rejection into a StartError that begins with `what`. */
export function failStart(what: string) {
  return (error: Error & { code?: string }): never => {
    // Connecting to a host with several addresses fails with an AggregateError, whose message is empty.
    throw new StartError(`${what}: ${error.message || error.code}`)
  }
}
