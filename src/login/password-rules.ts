// Judges a new password. The rules apply when a password is set, never at a login.

export type PasswordFlaw = 'too_short' | 'too_long' | 'too_common' | 'personal' | 'unchanged'

export const PASSWORD_MIN_LENGTH = 8
/** bcrypt ignores further bytes. */
const MAX_BYTES = 72

type Context = {
  minLength: number
  email?: string
  name?: string
  brandName?: string
  current?: string
}

/** Null if nothing is wrong with the password. */
export async function findPasswordFlaw(
  password: string,
  { minLength, current }: Context,
): Promise<PasswordFlaw | null> {
  if ([...password].length < minLength) return 'too_short'
  if (Buffer.byteLength(password) > MAX_BYTES) return 'too_long'
  return password === current ? 'unchanged' : null
}
