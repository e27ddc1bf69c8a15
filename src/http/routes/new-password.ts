// The answer to a new password that cannot be used.
import type { PasswordFlaw } from '../../login/password-rules.ts'
import type { Details } from '../answer/envelope.ts'

export const FLAW_MESSAGES: Record<PasswordFlaw, string> = {
  too_short: 'The new password is too short',
  too_long: 'The new password is too long: it may have up to 72 bytes',
  too_common: 'The new password is one of those that are guessed first',
  personal: 'The new password is too similar to your name, your email or the name of this service',
  unchanged: 'The new password is the same as the current one',
}

export function detailsOf(flaw: PasswordFlaw): Details {
  return { fields: ['newPassword'], reason: flaw, message: FLAW_MESSAGES[flaw] }
}
