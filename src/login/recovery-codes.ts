// Recovery codes: each takes the place of the second factor once. They are random enough for a plain digest.
import { digestOf, randomGroups } from '../system/identifiers.ts'

const CODES = 10
/** 120 bits. */
const GROUPS = 6

export function makeRecoveryCodes(): string[] {
  return Array.from({ length: CODES }, () => randomGroups(GROUPS))
}

/** Of the code that was typed: case and what separates the groups do not matter, nor letters taken for digits. */
export function digestOfRecoveryCode(typed: string): string {
  const text = typed.toLowerCase().replace(/[^a-z\d]/g, '')
  return digestOf(text.replace(/o/g, '0').replace(/[il]/g, '1'))
}
