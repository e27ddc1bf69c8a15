// What is typed on the command line, checked before anything is opened.

import { isUuid } from '../../identifiers.ts'
import { canonicalEmail, problemWithEmail, problemWithNewEmail } from '../../login/credentials.ts'
import { WrongUse } from '../failures.ts'

const TIME = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?$/

/** The email of a user who may exist. */
export const toEmail = toEmailWithout(problemWithEmail)

/** The email of a user to be added. */
export const toNewEmail = toEmailWithout(problemWithNewEmail)

function toEmailWithout(problemWith: (email: string) => string | null) {
  return (typed: string) => {
    const email = canonicalEmail(typed)
    const problem = problemWith(email)
    if (problem) throw new WrongUse(`This e-mail cannot be used: ${problem}.`)
    return email
  }
}

/** A UUID in the spelling of the database; anything else as typed, for it may be an email. */
export function toId(typed: string): string {
  const id = typed.trim()
  return isUuid(id) ? id.toLowerCase() : id
}

/** Lengths in characters, as the database counts them. */
export function toText(option: string, maxLength: number) {
  return (typed: string) => {
    const text = typed.trim()
    const { length } = [...text]
    if (length === 0) throw new WrongUse(`${option} is empty.`)
    if (length > maxLength) {
      throw new WrongUse(`${option} has ${length} characters; at most ${maxLength} fit.`)
    }
    if (/\p{Cc}/u.test(text) || !text.isWellFormed()) {
      throw new WrongUse(`${option} has characters that cannot be stored.`)
    }
    return text
  }
}

export function toFutureTime(option: string, clock: () => Date) {
  return (typed: string) => {
    const time = new Date(typed)
    const day = TIME.exec(typed)?.[1] ?? ''
    // February 30 would silently become March 2.
    const isDay = !Number.isNaN(time.getTime()) && new Date(day).toISOString().startsWith(day)
    if (day === '' || !isDay) {
      throw new WrongUse(`${option} takes a time such as 2030-01-31 or 2030-01-31T12:00Z.`)
    }
    if (time <= clock()) throw new WrongUse(`${option} must be in the future.`)
    return time
  }
}
