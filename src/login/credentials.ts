// What a caller typed, in the one form that lookups, counters and uniqueness share.

const EMAIL_MAX_LENGTH = 254
const PASSWORD_MIN_CHARACTERS = 8
/** bcrypt reads no further; a longer password would match on its first 72 bytes alone. */
const PASSWORD_MAX_BYTES = 72
/** No stored e-mail lacks the "@": looking this up finds nobody, with the work of any other look-up. */
const NOBODY = 'nobody'

const CONTROL_CHARACTER = /\p{Cc}/u
/** Stands for bytes that are no UTF-8. */
const REPLACEMENT = '\ufffd'
/**
 * Invisible, ignorable, private, unassigned; blank (U+2800); the wide form of an ASCII letter or dot;
 * or in the place of broken text. Other look-alikes, such as Cyrillic letters, are ordinary letters.
 */
const UNSEEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\u3002\uff01-\uff61\ufffd]/u

/**
 * Only ASCII letters lose their case: Unicode's mappings would merge different addresses, as the
 * Kelvin sign with "k".
 */
export function canonicalEmail(typed: string): string {
  return typed.trim().replace(/[A-Z]+/g, letters => letters.toLowerCase())
}

/** The e-mail to look up: text that no database holds, or chokes on, never reaches one. */
export function lookupKey(email: string): string {
  const canExist =
    email.length <= EMAIL_MAX_LENGTH && email.isWellFormed() && !CONTROL_CHARACTER.test(email)
  return canExist ? email : NOBODY
}

/** Null if nothing stored can match: too long for bcrypt, or halves of characters. */
export function matchablePassword(typed: string): string | null {
  return typed.isWellFormed() && Buffer.byteLength(typed) <= PASSWORD_MAX_BYTES ? typed : null
}

/** Why an administrator cannot give a user this e-mail; null if nothing is wrong with it. */
export function problemWithEmail(email: string): string | null {
  if (email.length > EMAIL_MAX_LENGTH) return `it has more than ${EMAIL_MAX_LENGTH} characters`
  if (lookupKey(email) !== email) return 'it has characters that cannot be stored'
  if (!/^[^\s@]+@[^\s@]+$/.test(email)) return 'it is not of the form name@domain'
  return null
}

/**
 * Why an administrator cannot give this email to a new user. Stricter than what a login looks up: an
 * address that looks like another one would deceive everybody who reads it.
 */
export function problemWithNewEmail(email: string): string | null {
  const problem = problemWithEmail(email)
  if (problem) return problem
  const unseen = UNSEEN.exec(email)?.[0]
  if (unseen) return `it has ${codePointOf(unseen)}, which cannot be seen or told from others`
  if (email !== email.normalize('NFC')) {
    return 'an accent or letter in it is not in its composed form (Unicode NFC)'
  }
  if (/(^|[.@])\p{M}/u.test(email)) return 'a part of it begins with a combining character'
  if (/(^|[.@])\.|\.(@|$)/.test(email)) return 'a dot in it has nothing before or after it'
  return null
}

/** Whether a login finds the user whose stored email this is; one put in by hand may be unreachable. */
export function isReachable(stored: string): boolean {
  return lookupKey(canonicalEmail(stored)) === stored && !stored.includes(REPLACEMENT)
}

function codePointOf(character: string): string {
  return `U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}`
}

/** Why an administrator cannot set this password; null if nothing is wrong with it. */
export function problemWithPassword(password: string): string | null {
  if (!password.isWellFormed()) return 'it has characters that cannot be stored'
  if ([...password].length < PASSWORD_MIN_CHARACTERS) {
    return `it has fewer than ${PASSWORD_MIN_CHARACTERS} characters`
  }
  if (matchablePassword(password) === null) return `it has more than ${PASSWORD_MAX_BYTES} bytes`
  return null
}
