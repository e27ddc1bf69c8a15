// Normalises and checks emails and passwords. Lookups, counters and uniqueness use the same form of an email.

export const EMAIL_MAX_LENGTH = 254
/** bcrypt ignores further bytes, so a longer password would match by its first 72 bytes alone. */
export const PASSWORD_MAX_BYTES = 72
/** Has no "@", so no user has it. Looking it up costs as much as any other lookup. */
const NO_EMAIL = 'no-email'

const CONTROL_CHARACTER = /\p{Cc}/u
/** Replaces bytes that are not valid UTF-8. */
const REPLACEMENT = '\ufffd'
/**
 * Invisible, ignorable, private and unassigned characters, the blank U+2800, wide forms of ASCII
 * characters, and the replacement character. Other lookalikes, such as Cyrillic letters, are allowed.
 */
const DECEPTIVE = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\u3002\uff01-\uff61\ufffd]/u

/**
 * Trims the email and lower-cases ASCII letters only. Unicode's mappings would merge different addresses,
 * for example the Kelvin sign with "k".
 */
export function canonicalEmail(typed: string): string {
  return typed.trim().replace(/[A-Z]+/g, letters => letters.toLowerCase())
}

/** The email to look up. An email that no user can have is replaced, so that the lookup finds no user. */
export function lookupKey(email: string): string {
  const canExist =
    email.length <= EMAIL_MAX_LENGTH && email.isWellFormed() && !CONTROL_CHARACTER.test(email)
  return canExist ? email : NO_EMAIL
}

/** Null if no stored hash can match: the password is too long for bcrypt or not well-formed Unicode. */
export function matchablePassword(typed: string): string | null {
  return typed.isWellFormed() && Buffer.byteLength(typed) <= PASSWORD_MAX_BYTES ? typed : null
}

/** Why no user can have this email; null if nothing is wrong with it. */
export function problemWithEmail(email: string): string | null {
  if (email.length > EMAIL_MAX_LENGTH) return `it has more than ${EMAIL_MAX_LENGTH} characters`
  if (lookupKey(email) !== email) return 'it has characters that cannot be stored'
  if (!/^[^\s@]+@[^\s@]+$/.test(email)) return 'it does not have the form name@domain'
  return null
}

/**
 * Why an administrator cannot give this email to a new user. Stricter than a lookup, because an address
 * that looks like another one would deceive its readers.
 */
export function problemWithNewEmail(email: string): string | null {
  const problem = problemWithEmail(email)
  if (problem) return problem
  const deceptive = DECEPTIVE.exec(email)?.[0]
  if (deceptive) {
    return `it has ${codePointOf(deceptive)}, which is invisible or looks like another character`
  }
  if (email !== email.normalize('NFC')) {
    return 'it has a letter or accent that is not in its composed form (Unicode NFC)'
  }
  if (/(^|[.@])\p{M}/u.test(email)) return 'a part of it begins with a combining character'
  if (/(^|[.@])\.|\.(@|$)/.test(email)) return 'it has a dot without a character before or after it'
  return null
}

/** True if a login finds the user with this stored email. An email inserted by SQL may never be found. */
export function isReachable(stored: string): boolean {
  return lookupKey(canonicalEmail(stored)) === stored && !stored.includes(REPLACEMENT)
}

export function codePointOf(character: string): string {
  return `U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}`
}

/** Why no user can have this password, whatever the rules are; null if nothing is wrong with it. */
export function problemWithPassword(password: string): string | null {
  if (password === '') return 'it is empty'
  if (!password.isWellFormed()) return 'it has characters that cannot be stored'
  if (matchablePassword(password) === null) return `it has more than ${PASSWORD_MAX_BYTES} bytes`
  return null
}
