// Checks the values of one row, by the rules of "users add".
import { costOf } from '../../bcrypt/hash-text.ts'
import type { ImportedUser } from '../../domain/import.ts'
import { isUuid } from '../../identifiers.ts'
import { Failure } from '../failures.ts'
import { nameParser, parseNewEmail, parsePassword, roleParser } from '../terminal/arguments.ts'
import { parseTime } from '../terminal/times.ts'
import type { SecretField, Values } from './records.ts'

export type CheckedRow = Omit<ImportedUser, 'id' | 'isIdGiven' | 'passwordHash'> & {
  id: string | null
  /** The hash or the password. */
  secret: string
}

const parseName = nameParser('name')
const parseRole = roleParser('role')

/** Throws a Failure whose message says what is wrong. A missing value, null and an empty text are the same. */
export function checkRow(
  values: Values,
  secret: SecretField,
  maxCost: number,
  now: Date,
): CheckedRow {
  const id = textIn(values, 'id')
  if (id !== null && !isUuid(id)) throw new Failure('id is not a UUID.')
  const role = textIn(values, 'role')
  const lockedUntil = timeIn(values, 'lockedUntil')
  return {
    id: id?.toLowerCase() ?? null,
    email: parseNewEmail(requiredIn(values, 'email')),
    name: parseName(requiredIn(values, 'name')),
    role: role === null ? null : parseRole(role),
    isActive: flagIn(values, 'isActive'),
    createdAt: timeIn(values, 'createdAt'),
    temporaryUntil: timeIn(values, 'temporaryUntil'),
    // A lock that is over is none.
    lockedUntil:
      lockedUntil && lockedUntil <= now ? null : 'lockedUntil' in values ? lockedUntil : undefined,
    secret:
      secret === 'password'
        ? parsePassword(requiredIn(values, secret))
        : checkHash(requiredIn(values, secret), maxCost),
  }
}

function checkHash(hash: string, maxCost: number): string {
  const cost = costOf(hash)
  if (cost === null) throw new Failure('passwordHash is not a bcrypt hash ($2a$, $2b$ or $2y$).')
  if (cost > maxCost) {
    throw new Failure(`passwordHash has the cost ${cost}, which is above BCRYPT_COST (${maxCost}).`)
  }
  return hash
}

function textIn(values: Values, field: string): string | null {
  const value = values[field] ?? ''
  if (typeof value !== 'string') throw new Failure(`${field} must be text.`)
  return value === '' ? null : value
}

function requiredIn(values: Values, field: string): string {
  const text = textIn(values, field)
  if (text === null) throw new Failure(`${field} is missing.`)
  return text
}

/** CSV has text only. */
function flagIn(values: Values, field: string): boolean | null {
  const value = values[field] ?? ''
  if (value === '') return null
  if (value === true || value === 'true') return true
  if (value === false || value === 'false') return false
  throw new Failure(`${field} must be true or false.`)
}

function timeIn(values: Values, field: string): Date | null {
  const text = textIn(values, field)
  return text === null ? null : parseTime(field)(text)
}
