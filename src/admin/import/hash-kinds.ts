// Recognises hashes of passwords by their form, so that no hash is taken for a password.

const KINDS: [kind: string, form: RegExp][] = [
  ['bcrypt', /^\$2[abxy]?\$\d\d\$/],
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
]

/** The kind of a hash; null for text that is none, and for digests that look like any other text. */
export function hashKindOf(text: string): string | null {
  return KINDS.find(([, form]) => form.test(text))?.[0] ?? null
}
