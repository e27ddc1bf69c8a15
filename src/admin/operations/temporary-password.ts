// Passwords that an administrator hands over: generated ones, and how long a temporary one is valid.
import { randomInt } from 'node:crypto'
import {
  TEMPORARY_PASSWORD_MAX_SECONDS,
  TEMPORARY_PASSWORD_MIN_SECONDS,
  TEMPORARY_PASSWORD_SECONDS,
} from '../../domain/lifetimes.ts'
import { WrongUse } from '../../system/failures.ts'
import { endParser, type Moment } from '../input/times.ts'

/** Crockford's alphabet, 5 bits per character: no letter can be mistaken for a digit. */
const CHARACTERS = '0123456789abcdefghjkmnpqrstvwxyz'
/** 100 bits, in groups that can be dictated. */
const GROUPS = 5
const GROUP_LENGTH = 4

export function generatePassword(): string {
  const character = () => CHARACTERS[randomInt(CHARACTERS.length)]
  const group = () => Array.from({ length: GROUP_LENGTH }, character).join('')
  return Array.from({ length: GROUPS }, group).join('-')
}

export const DEFAULT_END: Moment = now =>
  new Date(now.getTime() + TEMPORARY_PASSWORD_SECONDS * 1000)

/** When a temporary password ends: a duration or a time, from one hour to 30 days away. */
export function parseValid(option: string) {
  const parse = endParser(option)
  return (typed: string): Moment => {
    const endAt = parse(typed)
    return now => {
      const end = endAt(now)
      const seconds = (end.getTime() - now.getTime()) / 1000
      const isAllowed =
        seconds >= TEMPORARY_PASSWORD_MIN_SECONDS && seconds <= TEMPORARY_PASSWORD_MAX_SECONDS
      if (!isAllowed)
        throw new WrongUse(`${option} takes 1h to 30d, or a time within these limits.`, option)
      return end
    }
  }
}
