// Checks the address to return to after a login: of listed origins, and with a code only listed addresses.

const MAX_CHARACTERS = 2048
/** Visible ASCII without the backslash: browsers drop tabs and turn backslashes into slashes. */
const PLAIN = /^[\x21-\x5b\x5d-\x7e]+$/
/** SHA-256 in base64url. */
const CHALLENGE = /^[\w-]{43}$/

/**
 * Null unless the text is literally a listed origin, optionally with a path, query or fragment after it.
 * Anything else could be read differently by this parser and the browser's.
 */
export function acceptedReturnTo(asked: unknown, origins: readonly string[]): string | null {
  if (!isPlain(asked)) return null
  const origin = origins.find(
    listed => asked.startsWith(listed) && /^([/?#]|$)/.test(asked.slice(listed.length)),
  )
  return URL.canParse(asked) && new URL(asked).origin === origin ? asked : null
}

/**
 * The listed address that this one is, apart from its query; null if it is none, or if the challenge has another form
 * than a digest. A code is added to the query, so there must be no fragment and no `code` yet.
 */
export function acceptedCallback(
  asked: unknown,
  challenge: unknown,
  callbacks: readonly string[],
): string | null {
  const isChallenge = typeof challenge === 'string' && CHALLENGE.test(challenge)
  if (!isChallenge || !isPlain(asked) || asked.includes('#')) return null
  const [address = ''] = asked.split('?', 1)
  // Some parsers also separate parameters by semicolons, and read `code[]` or ` code` as `code`.
  const query = new URLSearchParams(asked.slice(address.length).replaceAll(';', '&'))
  const hasCode = [...query.keys()].some(name => /^\W*code(\W|$)/.test(name))
  return callbacks.includes(address) && !hasCode ? address : null
}

function isPlain(asked: unknown): asked is string {
  return typeof asked === 'string' && asked.length <= MAX_CHARACTERS && PLAIN.test(asked)
}

/** No match if there is a user name, which may be secret, or a character that browsers drop or replace. */
const SENT_ORIGIN = /^https?:\/\/[^\s/?#@\\]+(?=[/?#]|$)/i

/** The only part of a refused address that may be logged, as it was sent; undefined if it has no origin. */
export function originOf(asked: unknown): string | undefined {
  const isAddress =
    typeof asked === 'string' && asked.length <= MAX_CHARACTERS && URL.canParse(asked)
  return isAddress ? (SENT_ORIGIN.exec(asked)?.[0] ?? new URL(asked).origin) : undefined
}
