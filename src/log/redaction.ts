// Removes secrets from what is logged, and bounds the length of a line.
import { maskAdminTokens } from '../system/identifiers.ts'
import { safeJson } from './printable.ts'

/** Names of fields that are never logged, at any depth; in lower case. */
const SECRETS = new Set([
  ...['currentpassword', 'newpassword', 'newhash'],
  ...['password', 'passwordhash', 'password_hash', 'secret', 'privatekey'],
  ...['token', 'accesstoken', 'access_token', 'refreshtoken', 'refresh_token', 'devicetoken'],
  ...['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'csrf', 'x-csrf-token'],
  ...['headers', 'rawheaders', 'body', 'query', 'url'],
])
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
  const copy = copyOf(named, 1, { values: MAX_VALUES })
  return Array.isArray(copy) ? { items: copy } : copy
}

function toLogged(value: unknown, depth: number, budget: Budget): unknown {
  if (typeof value === 'string') return cut(value)
  if (typeof value === 'number' || typeof value === 'boolean') return value
  if (typeof value !== 'object') return
  if (value === null || value instanceof Date) return value
  if (value instanceof Error) return describeError(value)
  // Bytes may contain a secret that no field name reveals.
  if (depth >= MAX_DEPTH || ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return
  return copyOf(value, depth + 1, budget)
}

/** Lists may alternate names and values: an item after the name of a secret is left out. */
function copyOf(value: object, depth: number, budget: Budget): Record<string, unknown> | unknown[] {
  const isList = Array.isArray(value) || value instanceof Set
  const fields: Record<string, unknown> = {}
  const items: unknown[] = []
  let last: unknown
  for (const [name, item] of entriesOf(value)) {
    const isHidden = isSecret(isList ? last : name)
    last = item
    if (isHidden) continue
    if (budget.values-- <= 0) break
    const logged = name === 'err' ? describeError(item) : toLogged(item, depth, budget)
    if (isList) items.push(logged ?? null)
    else fields[cut(name)] = logged
  }
  return isList ? items : fields
}

/** Empty for an object whose fields cannot be read: logging must not throw. */
function entriesOf(value: object): [name: string, value: unknown][] {
  try {
    if (!(value instanceof Map || value instanceof Set)) return Object.entries(value)
    return [...value.entries()].map(([name, item]) => [
      typeof name === 'string' ? name : typeof name,
      item,
    ])
  } catch {
    return []
  }
}

function isSecret(name: unknown): boolean {
  return typeof name === 'string' && SECRETS.has(name.slice(0, 30).toLowerCase())
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
