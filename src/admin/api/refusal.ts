// The answer if an operation cannot be performed, for the admin API and the console.
import { DatabaseBusy } from '../../domain/store.ts'
import type { Details, FailureCode } from '../../http/answer/envelope.ts'
import { Failure } from '../../system/failures.ts'

const RETRY_WORK_SECONDS = 5

/** Other failures are those of commands. */
const CODE_OF: Partial<Record<Failure['code'], FailureCode>> = {
  'not-found': 'NOT_FOUND',
  'email-taken': 'EMAIL_TAKEN',
  'weak-password': 'INVALID_REQUEST',
  'password-known': 'PASSWORD_KNOWN',
  'wrong-use': 'INVALID_REQUEST',
}

/** Throws what is a fault. */
export function toRefusal(error: unknown): { code: FailureCode; details: Details } {
  const code = error instanceof Failure && CODE_OF[error.code]
  if (code) {
    const { message, field, reason } = error
    const details = { message, ...(field && { fields: [field] }), ...(reason && { reason }) }
    return { code, details }
  }
  if (error instanceof DatabaseBusy) {
    return { code: 'SERVICE_UNAVAILABLE', details: { retryAfterSeconds: RETRY_WORK_SECONDS } }
  }
  throw error
}
