// The answer to a change of the second factors that cannot be made.
import type { FactorFlaw } from '../../login/attempt.ts'
import type { Details } from '../answer/envelope.ts'

export const FACTOR_FLAW_MESSAGES: Record<FactorFlaw['reason'], string> = {
  malformed: 'The secret is not base32 of 20 to 64 bytes',
  wrong_code: 'The new code does not fit the secret and the time',
  passkey_wrong: 'The passkey is not one that this service can use, or its challenge is not',
  passkey_elsewhere: 'The passkey was made on a page of another address than that of this service',
  passkey_known: 'The account has this passkey already',
  passkey_late: 'The challenge of the passkey is too old: get a new one',
  too_many_passkeys: 'The account has ten passkeys: remove one first',
  no_second_factor: 'The account has no such second factor',
  demanded: 'Your role needs a second factor: add another one before you remove this one',
}

export function detailsOfFactor({ field, reason }: FactorFlaw): Details {
  return { fields: [field], reason, message: FACTOR_FLAW_MESSAGES[reason] }
}
