// Failures that the user of a command can fix: shown as a sentence, without a stack trace.

/** The exit code of a command that was refused or found nothing. */
export const FAILED = 1
export const WRONG_USE = 2

export class Failure extends Error {
  readonly exitCode: number = FAILED
}

/** An operation that cannot be done, with the reason for the admin API. */
export class Refusal extends Failure {
  readonly reason: 'not-found' | 'taken' | 'invalid'
  /** The field of the request that is to blame. */
  readonly field: string | undefined

  constructor(reason: Refusal['reason'], message: string, field?: string) {
    super(message)
    this.reason = reason
    this.field = field
  }
}

/** The arguments of the command are wrong. */
export class WrongUse extends Failure {
  override readonly exitCode = WRONG_USE
}

/** The reader closed the output, as `| head` does: the command ends without a message and succeeds. */
export class OutputClosed extends Failure {
  override readonly exitCode = 0
}

export function userNotFound(email: string): Refusal {
  return new Refusal('not-found', `There is no user ${email}.`)
}

export function unfitPassword(problem: string): string {
  return `This password cannot be used: ${problem}.`
}
