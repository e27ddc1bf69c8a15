// Where the page may go on to after a login: to an address of a listed origin, and nowhere else.

const MAX_CHARACTERS = 2048
/** What a well-formed address consists of. Browsers drop tabs and turn backslashes into slashes. */
const PLAIN = /^[\x21-\x5b\x5d-\x7e]+$/

/**
 * Null for everything that is not literally a listed origin and, if anything, a path, query or fragment
 * after it: what two parsers could read in two ways is not read at all.
 */
export function acceptedReturnTo(asked: unknown, origins: readonly string[]): string | null {
  if (typeof asked !== 'string' || asked.length > MAX_CHARACTERS || !PLAIN.test(asked)) return null
  const origin = origins.find(
    listed => asked.startsWith(listed) && /^([/?#]|$)/.test(asked.slice(listed.length)),
  )
  return URL.canParse(asked) && new URL(asked).origin === origin ? asked : null
}

/** All that may be logged of an address that is not accepted; undefined if it has no origin. */
export function originOf(asked: unknown): string | undefined {
  const isAddress =
    typeof asked === 'string' && asked.length <= MAX_CHARACTERS && URL.canParse(asked)
  return isAddress ? new URL(asked).origin : undefined
}
