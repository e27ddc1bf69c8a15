// Makes foreign text safe to show: it must not forge lines, control a terminal or reorder what is read.

/** Control characters, line separators, and characters that change the direction of text. */
const UNSAFE_CHARACTERS = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu
const PLACEHOLDER = '\ufffd'

/** For a terminal; keeps line ends. */
export function printable(text: string): string {
  return text.replace(UNSAFE_CHARACTERS, character =>
    character === '\n' ? character : PLACEHOLDER,
  )
}

/** For a terminal, in one line. */
export function printableLine(text: string): string {
  return text.replace(UNSAFE_CHARACTERS, PLACEHOLDER)
}

/** Escapes unsafe characters in JSON; keeps the line ends between its lines. */
export function safeJson(json: string): string {
  return json.replace(UNSAFE_CHARACTERS, character =>
    character === '\n' ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
