// Failures that an administrator can fix: a sentence for people, and a code for programs. main.ts maps the code to
// the exit code of a command, admin/api/app.ts to an answer of the admin API.

type Details = {
  /** `output-closed`: the reader closed the output, as `| head` does. The command ends without a message. */
  code?:
    | ('failed' | 'wrong-use' | 'not-found' | 'email-taken')
    | ('weak-password' | 'password-known' | 'output-closed')
  /** The part of a request that cannot be used. */
  field?: string | undefined
  /** A word for programs: why a password is refused. */
  reason?: string
  cause?: unknown
}

export class Failure extends Error {
  readonly code: NonNullable<Details['code']>
  readonly field: string | undefined
  readonly reason: string | undefined

  constructor(message = '', { code = 'failed', field, reason, cause }: Details = {}) {
    super(message, { cause })
    this.code = code
    this.field = field
    this.reason = reason
  }
}

/** The arguments of a command, or the fields of a request, are wrong. */
export class WrongUse extends Failure {
  constructor(message: string, field?: string) {
    super(message, { code: 'wrong-use', field })
  }
}

export function userNotFound(email: string): Failure {
  return new Failure(`There is no user ${email}.`, { code: 'not-found' })
}

export function emailTaken(email: string): Failure {
  return new Failure(`There is already a user ${email}.`, { code: 'email-taken' })
}

export function unfitPassword(problem: string): string {
  return `This password cannot be used: ${problem}.`
}
