// Parses and checks the arguments of a command, before any file or database is opened.

import { isUuid } from '../../identifiers.ts'
import { canonicalEmail, problemWithEmail, problemWithNewEmail } from '../../login/credentials.ts'
import { WrongUse } from '../failures.ts'

const TIME = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?$/

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
    const { length } = [...text]
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

export function parseCount(option: string) {
  return (typed: string) => {
    if (!/^[1-9]\d{0,8}$/.test(typed)) {
      throw new WrongUse(`${option} takes a whole number from 1 to 999999999.`)
    }
    return Number(typed)
  }
}

export function parseTime(option: string) {
  return (typed: string) => {
    const time = new Date(typed)
    const day = TIME.exec(typed)?.[1] ?? ''
    // February 30 would silently become March 2.
    const isDay = !Number.isNaN(time.getTime()) && new Date(day).toISOString().startsWith(day)
    if (day === '' || !isDay) {
      throw new WrongUse(`${option} takes a time such as 2030-01-31 or 2030-01-31T12:00Z.`)
    }
    return time
  }
}
