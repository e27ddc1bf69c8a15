// How a command fails in ways that its user can fix: with a sentence, and without a stack trace.

/** Refused or not found. */
export const FAILED = 1
export const WRONG_USE = 2

export class Failure extends Error {
  readonly exitCode: number = FAILED
}

/** The command was called in a way that cannot work. */
export class WrongUse extends Failure {
  override readonly exitCode = WRONG_USE
}

/** The reader of the output has closed it, as `| head` does. That is no failure, and needs no message. */
export class OutputClosed extends Failure {
  override readonly exitCode = 0
}

/** Also for an AggregateError, whose own message is empty. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(messageOf).join(', ')
  }
  return error instanceof Error ? error.message : String(error)
}
