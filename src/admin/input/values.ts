// Parses what an administrator enters: the arguments of commands and the fields of requests to the admin API. Every
// parser throws WrongUse; `label` is the name of the argument or field in its message.
import { costOf } from '../../bcrypt/hash-text.ts'
import {
  canonicalEmail,
  codePointOf,
  EMAIL_MAX_LENGTH,
  problemWithEmail,
  problemWithNewEmail,
  problemWithPassword,
} from '../../login/credentials.ts'
import { toCountedClient } from '../../system/client-group.ts'
import { unfitPassword, WrongUse } from '../../system/failures.ts'
import { isUuid } from '../../system/identifiers.ts'

/** Invisible characters and those that reorder text: with one of them, a name or role looks like another one. */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800\ufff9-\ufffb]/u
/** Variation selectors are allowed: emoji and Chinese characters in names have them. */
const INVISIBLE_IN_NAMES =
  /[[\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800\ufff9-\ufffb]--\p{Variation_Selector}]/v

/** The email of an existing user. */
export const parseEmail = emailParser(problemWithEmail)

/** The email of a user to add. */
export const parseNewEmail = emailParser(problemWithNewEmail)

function emailParser(problemWith: (email: string) => string | null) {
  return (typed: string) => {
    const email = canonicalEmail(typed)
    const problem = problemWith(email)
    if (problem) throw new WrongUse(`This email cannot be used: ${problem}.`)
    return email
  }
}

/** Lower-cases a UUID, as the database spells it. Other text stays as typed: it may be an email. */
export function parseId(typed: string): string {
  const id = typed.trim()
  return isUuid(id) ? id.toLowerCase() : id
}

/** Counts characters, not UTF-16 units, as the database does. */
function textParser(label: string, maxLength: number) {
  return (typed: string) => {
    const text = typed.trim()
    // Characters are counted only if there may be too many.
    const { length } = text.length > maxLength ? [...text] : text
    if (length === 0) throw new WrongUse(`${label} must not be empty.`)
    if (length > maxLength) {
      throw new WrongUse(`${label} has ${length} characters; at most ${maxLength} are allowed.`)
    }
    if (/\p{Cc}/u.test(text) || !text.isWellFormed()) {
      throw new WrongUse(`${label} must not have control characters or broken Unicode.`)
    }
    return text
  }
}

/** The database has the same limits. */
export const nameParser = (label: string) => visibleText(label, 100, INVISIBLE_IN_NAMES)
export const roleParser = (label: string) => visibleText(label, 50, INVISIBLE)
/** Also finds a role that is no longer allowed. */
export const roleFilterParser = (label: string) => textParser(label, 50)
/** A part of an email or name. */
export const searchParser = (label: string) => textParser(label, EMAIL_MAX_LENGTH)

/** An email, or the id, name or address of another target of a change. The ids of keys are case-sensitive. */
export function targetParser(label: string) {
  const parse = textParser(label, EMAIL_MAX_LENGTH)
  return (typed: string) => {
    const text = parse(typed)
    return /[@:]/.test(text) || isUuid(text) ? canonicalEmail(text) : text
  }
}

export function eventIdParser(label: string) {
  return (typed: string) => {
    if (/^[1-9]\d{0,14}$/.test(typed)) return Number(typed)
    throw new WrongUse(`${label} takes the id of an event.`)
  }
}

/** An email as it is stored: one that was inserted by SQL may be in another form than logins look up. */
export function storedEmailParser(label: string) {
  return (typed: string) => {
    // PostgreSQL would reject other text.
    const isStorable = typed.isWellFormed() && !typed.includes('\0')
    if (isStorable && typed.length <= EMAIL_MAX_LENGTH) return typed
    throw new WrongUse(`${label} is too long or has characters that cannot be stored.`)
  }
}

function visibleText(label: string, maxLength: number, invisible: RegExp) {
  const parse = textParser(label, maxLength)
  return (typed: string) => {
    const text = parse(typed)
    const [found] = invisible.exec(text) ?? []
    if (found === undefined) return text
    throw new WrongUse(
      `${label} has ${codePointOf(found)}, which is invisible or changes the direction of text.`,
    )
  }
}

export function parsePassword(typed: string): string {
  const problem = problemWithPassword(typed)
  if (problem) throw new WrongUse(unfitPassword(problem))
  return typed
}

/** A hash from another system, of at most the cost that the service is configured for. */
export function parseHash(typed: string, maxCost: number): string {
  const cost = costOf(typed)
  if (cost !== null && cost <= maxCost) return typed
  const rule = `a bcrypt hash ($2a, $2b or $2y) of cost 4 to ${maxCost}`
  throw new WrongUse(`passwordHash takes ${rule}.`, 'passwordHash')
}

export function countParser(label: string, max = 999_999_999) {
  return (typed: string) => {
    if (/^[1-9]\d{0,8}$/.test(typed) && Number(typed) <= max) return Number(typed)
    throw new WrongUse(`${label} takes a whole number from 1 to ${max}.`)
  }
}

export function clientParser(label: string) {
  return (typed: string) => {
    const client = toCountedClient(typed.trim())
    if (!client) throw new WrongUse(`${label} takes an IP address such as 203.0.113.7.`)
    return client
  }
}
