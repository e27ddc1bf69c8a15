// Passwords that an administrator hands over: generated ones, and how long a temporary one is valid.
import {
  TEMPORARY_PASSWORD_MAX_SECONDS,
  TEMPORARY_PASSWORD_MIN_SECONDS,
  TEMPORARY_PASSWORD_SECONDS,
} from '../../domain/lifetimes.ts'
import { WrongUse } from '../../system/failures.ts'
import { randomGroups } from '../../system/identifiers.ts'
import { endParser, type Moment } from '../input/times.ts'

/** 100 bits. */
const GROUPS = 5

export function generatePassword(): string {
  return randomGroups(GROUPS)
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
