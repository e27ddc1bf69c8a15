// Removes secrets from what is logged, and bounds the length of a line.
import { maskAdminTokens } from '../system/identifiers.ts'
import { safeJson } from './printable.ts'

/** Names of fields that are never logged, at any depth. */
const SECRET =
  /^((current|new)?password|(password_?|new)hash|secret|(new)?(otp|passkey)|recoverycodes?|privatekey|((access|refresh)_?|device)?token|(proxy-)?authorization|(set-)?cookie|csrf|x-csrf-token|(raw)?headers|body|query|url)$/i
/** Values that are nested deeper are left out. */
const MAX_DEPTH = 4
/** All fields and entries of a line together. Also ends circular references. */
const MAX_VALUES = 100
/** Counted as written: a control character is written as six characters. */
const MAX_CHARACTERS = 512
const MESSAGE_MAX_CHARACTERS = 1_024
const STACK_MAX_CHARACTERS = 4_096
/** Characters that JSON does not escape. */
const PLAIN = /^[ !#-[\]-~]*$/

type Budget = { values: number }

export function withoutSecrets(facts: object): Record<string, unknown> {
  const copy = copyOf(facts, 1, { values: MAX_VALUES })
  return Array.isArray(copy) ? { items: copy } : copy
}

function toLogged(value: unknown, depth: number, budget: Budget): unknown {
  if (typeof value === 'string') return cut(value)
  if (typeof value === 'number' || typeof value === 'boolean') return value
  if (value === null || value instanceof Date) return value
  if (value instanceof Error) return describeError(value)
  // Bytes may contain a secret that no field name reveals.
  const isBytes = ArrayBuffer.isView(value) || value instanceof ArrayBuffer
  if (typeof value !== 'object' || isBytes || depth >= MAX_DEPTH) return
  return copyOf(value, depth + 1, budget)
}

/** Lists may alternate names and values: an item after the name of a secret is left out. */
function copyOf(value: object, depth: number, budget: Budget): Record<string, unknown> | unknown[] {
  const isList = Array.isArray(value) || value instanceof Set
  const kept: [name: string, value: unknown][] = []
  let last: unknown
  for (const [name, item] of entriesOf(value)) {
    const label = isList ? last : name
    last = item
    if (typeof label === 'string' && SECRET.test(label)) continue
    if (budget.values-- <= 0) break
    const logged = name === 'err' ? describeError(item) : toLogged(item, depth, budget)
    kept.push([typeof name === 'string' ? cut(name) : typeof name, logged])
  }
  return isList ? kept.map(([, item]) => item ?? null) : Object.fromEntries(kept)
}

/** Empty for an object whose fields cannot be read: logging must not throw. */
function entriesOf(value: object): [name: unknown, value: unknown][] {
  try {
    const isCollection = value instanceof Map || value instanceof Set
    return isCollection ? [...value.entries()] : Object.entries(value)
  } catch {
    return []
  }
}

/** No other field: errors of a database driver also quote the row, those of the query builder the statement. */
function describeError(error: unknown) {
  if (!(error instanceof Error)) return { message: typeof error }
  const { name, message, stack = '' } = error
  const code = 'code' in error ? error.code : undefined
  return {
    type: cut(String(name)),
    code: typeof code === 'string' ? cut(code) : Number.isFinite(code) ? code : undefined,
    message: cutMessage(String(message)),
    stack: cut(String(stack), STACK_MAX_CHARACTERS),
  }
}

/** Cuts the text of a line or the message of an error. */
export function cutMessage(text: string): string {
  return cut(text, MESSAGE_MAX_CHARACTERS)
}

/** The beginning of a text that is written with at most this many characters, without admin tokens. */
function cut(text: string, maxCharacters = MAX_CHARACTERS): string {
  let kept = maskAdminTokens(text).slice(0, maxCharacters)
  while (!PLAIN.test(kept)) {
    const written = safeJson(JSON.stringify(kept)).length - 2
    if (written <= maxCharacters) break
    kept = kept.slice(0, Math.floor((kept.length * maxCharacters) / written))
  }
  return kept
}
