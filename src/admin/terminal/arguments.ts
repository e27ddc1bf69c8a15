// Parses and checks the arguments of a command, before any file or database is opened.

import { isUuid } from '../../identifiers.ts'
import { toCountedClient } from '../../login/client-group.ts'
import {
  canonicalEmail,
  codePointOf,
  problemWithEmail,
  problemWithNewEmail,
  problemWithPassword,
} from '../../login/credentials.ts'
import { unfitPassword, WrongUse } from '../failures.ts'

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
export function parseText(option: string, maxLength: number) {
  return (typed: string) => {
    const text = typed.trim()
    // Characters are counted only if there may be too many.
    const { length } = text.length > maxLength ? [...text] : text
    if (length === 0) throw new WrongUse(`${option} must not be empty.`)
    if (length > maxLength) {
      throw new WrongUse(`${option} has ${length} characters; at most ${maxLength} are allowed.`)
    }
    if (/\p{Cc}/u.test(text) || !text.isWellFormed()) {
      throw new WrongUse(`${option} must not have control characters or broken Unicode.`)
    }
    return text
  }
}

/** As the database limits them. */
export const nameParser = (option: string) => visibleText(option, 100, INVISIBLE_IN_NAMES)
export const roleParser = (option: string) => visibleText(option, 50, INVISIBLE)
/** Also finds a role that is no longer allowed. */
export const roleFilterParser = (option: string) => parseText(option, 50)

function visibleText(option: string, maxLength: number, invisible: RegExp) {
  const parse = parseText(option, maxLength)
  return (typed: string) => {
    const text = parse(typed)
    const [found] = invisible.exec(text) ?? []
    if (found === undefined) return text
    throw new WrongUse(
      `${option} has ${codePointOf(found)}, which is invisible or changes the direction of text.`,
    )
  }
}

export function parsePassword(typed: string): string {
  const problem = problemWithPassword(typed)
  if (problem) throw new WrongUse(unfitPassword(problem))
  return typed
}

export function parseCount(option: string) {
  return (typed: string) => {
    if (!/^[1-9]\d{0,8}$/.test(typed)) {
      throw new WrongUse(`${option} takes a whole number from 1 to 999999999.`)
    }
    return Number(typed)
  }
}

export function parseClient(option: string) {
  return (typed: string) => {
    const client = toCountedClient(typed.trim())
    if (!client) throw new WrongUse(`${option} takes an IP address such as 203.0.113.7.`)
    return client
  }
}
