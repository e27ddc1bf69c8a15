// Text from elsewhere must not be able to forge what somebody reads.

/** Line ends to some readers, commands to terminals, or what turns text around. */
const UNSAFE_CHARACTERS = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu
const PLACEHOLDER = '\ufffd'

/** For a terminal; may have several lines. */
export function printable(text: string): string {
  return text.replace(UNSAFE_CHARACTERS, character =>
    character === '\n' ? character : PLACEHOLDER,
  )
}

/** For a terminal, in one line. */
export function printableLine(text: string): string {
  return text.replace(UNSAFE_CHARACTERS, PLACEHOLDER)
}

/** The same JSON, in safe characters; its own line ends stay. */
export function safeJson(json: string): string {
  return json.replace(UNSAFE_CHARACTERS, character =>
    character === '\n' ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
