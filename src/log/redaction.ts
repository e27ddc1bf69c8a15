// Removes secrets from what is logged, and bounds the length of a line.
import { maskAdminTokens } from '../identifiers.ts'
import { safeJson } from './printable.ts'

/** Names of fields that are never logged, at any depth; in lower case. */
const SECRETS = new Set([
  ...['currentpassword', 'newpassword', 'newhash'],
  ...['password', 'passwordhash', 'password_hash', 'secret', 'privatekey'],
  ...['token', 'accesstoken', 'access_token', 'refreshtoken', 'refresh_token', 'devicetoken'],
  ...['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'csrf', 'x-csrf-token'],
  ...['headers', 'rawheaders', 'body', 'query', 'url'],
])
const SECRET_MAX_CHARACTERS = 20
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
  const named = Array.isArray(facts) ? { items: facts } : facts
  return fieldsOf(named, 1, { values: MAX_VALUES })
}

function fieldsOf(facts: object, depth: number, budget: Budget): Record<string, unknown> {
  const kept: Record<string, unknown> = {}
  for (const [name, value] of entriesOf(facts)) {
    if (isSecret(name)) continue
    if (budget.values-- <= 0) break
    kept[cut(name)] = name === 'err' ? describeError(value) : toLogged(value, depth, budget)
  }
  return kept
}

function toLogged(value: unknown, depth: number, budget: Budget): unknown {
  if (typeof value === 'string') return cut(value)
  if (typeof value === 'number' || typeof value === 'boolean') return value
  if (typeof value !== 'object') return
  if (value === null || value instanceof Date) return value
  if (value instanceof Error) return describeError(value)
  // Bytes may contain a secret that no field name reveals.
  if (depth >= MAX_DEPTH || ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return
  if (Array.isArray(value) || value instanceof Set) return itemsOf([...value], depth + 1, budget)
  return fieldsOf(value, depth + 1, budget)
}

/** Lists may alternate names and values: an item after the name of a secret is left out. */
function itemsOf(items: unknown[], depth: number, budget: Budget): unknown[] {
  const kept: unknown[] = []
  for (const [index, item] of items.entries()) {
    if (isSecret(items[index - 1])) continue
    if (budget.values-- <= 0) break
    kept.push(toLogged(item, depth, budget) ?? null)
  }
  return kept
}

/** Empty for an object whose fields cannot be read: logging must not throw. */
function entriesOf(value: object): [name: string, value: unknown][] {
  try {
    if (!(value instanceof Map)) return Object.entries(value)
    return [...value].map(([key, entry]) => [typeof key === 'string' ? key : typeof key, entry])
  } catch {
    return []
  }
}

function isSecret(name: unknown): boolean {
  return (
    typeof name === 'string' &&
    name.length <= SECRET_MAX_CHARACTERS &&
    SECRETS.has(name.toLowerCase())
  )
}

/**
 * Only type, code, message and stack: errors of a database driver also quote the row, and those of the
 * query builder may contain the statement.
 */
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

/** The longest prefix of a text that is written with at most this many characters, without admin tokens. */
function cut(given: string, maxCharacters = MAX_CHARACTERS): string {
  const text = maskAdminTokens(given)
  if (fits(text, maxCharacters)) return text
  let [fitting, tooLong] = [0, Math.min(text.length, maxCharacters) + 1]
  while (tooLong - fitting > 1) {
    const middle = Math.floor((fitting + tooLong) / 2)
    if (fits(text.slice(0, middle), maxCharacters)) fitting = middle
    else tooLong = middle
  }
  return text.slice(0, fitting)
}

function fits(text: string, maxCharacters: number): boolean {
  if (text.length > maxCharacters) return false
  return PLAIN.test(text) || safeJson(JSON.stringify(text)).length - 2 <= maxCharacters
}
