// Why a token is invalid, for the log. The caller gets the same answer for every reason.

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
