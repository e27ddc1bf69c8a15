// Why a token is invalid, for the log. The caller gets the same answer for every reason.
import { decodeProtectedHeader, errors } from 'jose'
import type { Invalid } from '../domain/session.ts'

/** Far longer than any token of this service; a longer text is not parsed. */
export const TOKEN_MAX_CHARACTERS = 8_192

export type TokenReason =
  | 'malformed'
  | 'wrong-type'
  | 'unknown-key'
  | 'wrong-algorithm'
  | 'bad-signature'
  | 'wrong-issuer'
  | 'wrong-audience'
  | 'not-yet-valid'
  | 'expired'

/** The reason for each claim or header whose check can fail. */
const BY_CLAIM: Record<string, TokenReason> = {
  typ: 'wrong-type',
  iss: 'wrong-issuer',
  aud: 'wrong-audience',
  nbf: 'not-yet-valid',
}

/** Turns an error of the verification into a reason. Rethrows an error that the token did not cause. */
export function toInvalid(error: unknown, token: string, type: string): Invalid<TokenReason> {
  if (!(error instanceof errors.JOSEError)) throw error
  const reason = reasonOf(error)
  // A token of the other kind has another key and algorithm; 'wrong-type' is the better reason for it.
  const isByKey = reason === 'unknown-key' || reason === 'wrong-algorithm'
  const isOfOtherType = isByKey && decodeProtectedHeader(token).typ !== type
  return { kind: 'invalid', reason: isOfOtherType ? 'wrong-type' : reason }
}

function reasonOf(error: errors.JOSEError): TokenReason {
  if (error instanceof errors.JWTExpired) return 'expired'
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'bad-signature'
  if (error instanceof errors.JWKSNoMatchingKey) return 'unknown-key'
  if (error instanceof errors.JOSEAlgNotAllowed) return 'wrong-algorithm'
  if (error instanceof errors.JWTClaimValidationFailed) return BY_CLAIM[error.claim] ?? 'malformed'
  return 'malformed'
}
