// The answer to a change of the second factors that cannot be made.
import type { FactorFlaw } from '../../login/attempt.ts'
import type { Details } from '../answer/envelope.ts'

export const FACTOR_FLAW_MESSAGES: Record<FactorFlaw['reason'], string> = {
  malformed: 'The secret is not base32 of 20 to 64 bytes',
  wrong_code: 'The new code does not fit the secret and the time',
  no_second_factor: 'The account has no such second factor',
  demanded: 'Your role needs a second factor: replace this one instead of removing it',
}

export function detailsOfFactor({ field, reason }: FactorFlaw): Details {
  return { fields: [field], reason, message: FACTOR_FLAW_MESSAGES[reason] }
}
