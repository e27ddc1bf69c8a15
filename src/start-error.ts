/** What a person can mend: shown without a stack trace. */
export class StartError extends Error {}

/** Handles a rejection: the start ends with what failed and why. */
export function refuse(what: string) {
  return (error: Error & { code?: string }): never => {
    // A host of several addresses fails with several errors, and with no word of its own.
    throw new StartError(`${what}: ${error.message || error.code}`)
  }
}
