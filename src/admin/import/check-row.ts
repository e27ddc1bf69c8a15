// Checks the values of one row, by the rules of "users add".
import { costOf } from '../../bcrypt/hash-text.ts'
import type { ImportedUser } from '../../domain/import.ts'
import { Failure } from '../../failures.ts'
import { isUuid } from '../../identifiers.ts'
import { parseTypedTime } from '../input/times.ts'
import { nameParser, parseNewEmail, parsePassword, roleParser } from '../input/values.ts'
import type { SecretField } from './columns.ts'
import { hashKindOf } from './hash-kinds.ts'
import type { Values } from './records.ts'

export type CheckedRow = Omit<ImportedUser, 'id' | 'isIdGiven' | 'passwordHash'> & {
  id: string | null
  secret: Secret
}

/** The hash or the password of a row; or that it has none, or a hash that cannot be stored. */
type Secret = { hash: string } | { password: string } | { problem: string }

const parseName = nameParser('name')
const parseRole = roleParser('role')

/** Databases write a space for the T, up to six digits, and short zones: 2019-03-02 10:11:12.123456+00. */
const SQL_TIME =
  /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)\d{0,6}(?: ?UTC|(Z|[+-]\d\d(?::\d\d)?))?$/
const TRUE: unknown[] = [true, 'true', 't', '1']
const FALSE: unknown[] = [false, 'false', 'f', '0']

/** The checked row, or what is wrong with it. A missing value, null and an empty text are the same. */
export function tryCheck(...row: Parameters<typeof checkRow>): CheckedRow | Failure {
  try {
    return checkRow(...row)
  } catch (error) {
    if (error instanceof Failure) return error
    throw error
  }
}

/** Throws a Failure whose message says what is wrong. */
function checkRow(values: Values, secret: SecretField, maxCost: number, now: Date): CheckedRow {
  const id = textIn(values, 'id')
  if (id !== null && !isUuid(id)) throw new Failure('id is not a UUID: --map id= leaves it out.')
  const role = textIn(values, 'role')
  const lockedUntil = timeIn(values, 'lockedUntil')
  const email = parseNewEmail(requiredIn(values, 'email'))
  return {
    id: id?.toLowerCase() ?? null,
    // A copy: a part of the text of its line keeps that text in memory, and takes longer to compare.
    email: Buffer.from(email).toString(),
    name: parseName(requiredIn(values, 'name')),
    role: role === null ? null : parseRole(role),
    isActive: flagIn(values, 'isActive'),
    createdAt: timeIn(values, 'createdAt'),
    temporaryUntil: timeIn(values, 'temporaryUntil'),
    // A lock that is over is none.
    lockedUntil:
      lockedUntil && lockedUntil <= now ? null : 'lockedUntil' in values ? lockedUntil : undefined,
    secret: checkSecret(textIn(values, secret), secret, maxCost),
  }
}

function checkSecret(given: string | null, secret: SecretField, maxCost: number): Secret {
  if (given === null) return { problem: `${secret} is missing` }
  const kind = hashKindOf(given)
  if (secret === 'password') {
    if (kind === null) return { password: parsePassword(given) }
    throw new Failure(
      `password seems to be a hash (${kind}): add --map password=passwordHash instead of --hash-passwords.`,
    )
  }
  const cost = costOf(given)
  if (cost === null && kind && kind !== 'bcrypt') {
    return { problem: `passwordHash is ${kind}, not bcrypt` }
  }
  if (cost === null) throw new Failure('passwordHash is not a bcrypt hash ($2a$, $2b$ or $2y$).')
  if (cost > maxCost) {
    throw new Failure(`passwordHash has the cost ${cost}, which is above BCRYPT_COST (${maxCost}).`)
  }
  return { hash: given }
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

/** CSV has text only, and each database writes its own. */
function flagIn(values: Values, field: string): boolean | null {
  const value = values[field] ?? ''
  if (value === '') return null
  if (TRUE.includes(value)) return true
  if (FALSE.includes(value)) return false
  throw new Failure(`${field} must be true or false.`)
}

function timeIn(values: Values, field: string): Date | null {
  const text = textIn(values, field)
  if (text === null) return null
  const [, day, clock, zone = 'Z'] = SQL_TIME.exec(text) ?? []
  if (day === undefined) return parseTypedTime(field, text)
  return parseTypedTime(field, `${day}T${clock}${zone.length === 3 ? `${zone}:00` : zone}`)
}
