// Recognises hashes of passwords by their form, so that no hash is taken for a password.

const DIGEST = 'a digest such as MD5 or SHA-256'

const KINDS: [kind: string, form: RegExp][] = [
  ['bcrypt', /^(\{bcrypt\}|bcrypt\$)?\$2[abxy]?\$\d\d\$/],
  ['Argon2', /^(\$|argon2\$|\{)argon2/i],
  ['PBKDF2', /^(\$|\{)?pbkdf2[-_$]/i],
  ['scrypt', /^(\$7\$|\$?scrypt[$:])/],
  ['bcrypt over SHA-256', /^bcrypt_sha256\$/],
  ['LDAP', /^\{[A-Z0-9.-]+\}/i],
  ['Django', /^(bcrypt|md5|sha1|unsalted_\w+)\$/],
  ['WordPress', /^(\$P\$|\$H\$|\$wp\$)/],
  ['crypt', /^\$[\w-]+\$.+/],
  // Base64 of 64 bytes.
  ['scrypt of Firebase', /^[\w+/-]{86}==$/],
  // In hexadecimal, with the marks of SQL Server and MySQL; with a salt; in base64, where 48 bytes have no padding.
  [DIGEST, /^(0x|\*)?([\da-f]{32}|[\da-f]{40}|[\da-f]{56}|[\da-f]{64}|[\da-f]{96}|[\da-f]{128})$/i],
  [DIGEST, /^([\da-f]{32,}:[\da-f]+|[\da-f]+:[\da-f]{32,})$/i],
  [DIGEST, /^([\w+/-]{22}==|[\w+/-]{27}=|[\w+/-]{38}==|[\w+/-]{43}=)$/],
  [DIGEST, /^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[\w+/-]{64}$/],
]

/** Spring and Django write the algorithm before the hash. */
export const withoutAlgorithm = (text: string) => text.replace(/^(\{bcrypt\}|bcrypt\$)(?=\$2)/, '')

/** The kind of a hash; null for text that is none. */
export function hashKindOf(text: string): string | null {
  return KINDS.find(([, form]) => form.test(text))?.[0] ?? null
}

/** The kind that most of these texts have; null if most are no hashes. */
export function commonKindOf(texts: string[]): string | null {
  const kinds = texts.map(hashKindOf).filter(kind => kind !== null)
  return kinds.length * 2 > texts.length ? (kinds[0] ?? null) : null
}
