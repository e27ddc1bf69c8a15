// How a command can fail in ways that its user can mend: told in a sentence, without a stack trace.

export const REFUSED = 1
export const WRONG_USE = 2

export class Failure extends Error {
  readonly exitCode: number = REFUSED
}

/** Refused, or not found. */
export class Refusal extends Failure {}

/** The command was called in a way that cannot work. */
export class WrongUse extends Failure {
  override readonly exitCode = WRONG_USE
}

/** Nobody reads the output any more, as after `| head`: no fault of anyone, and nothing to say. */
export class NobodyReads extends Failure {
  override readonly exitCode = 0
}

/** Also for an attempt on several addresses, whose error has no text of its own. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(messageOf).join(', ')
  }
  return error instanceof Error ? error.message : String(error)
}
