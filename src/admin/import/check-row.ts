// Checks the values of one row, by the rules of "users add".
import { costOf } from '../../bcrypt/hash-text.ts'
import type { ImportedUser } from '../../domain/import.ts'
import { Failure } from '../../system/failures.ts'
import { isUuid } from '../../system/identifiers.ts'
import { parseTypedTime } from '../input/times.ts'
import { nameParser, parseNewEmail, parsePassword, roleParser } from '../input/values.ts'
import { IS_OFF, type SecretField } from './columns.ts'
import { flagOf } from './formats.ts'
import { hashKindOf, withoutAlgorithm } from './hash-kinds.ts'
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
  /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(?:(?<=\.\d{3})\d{1,6})?(?: ?UTC|(Z|[+-]\d\d(?::\d\d)?))?$/
/** No field has so many characters. To count those of a longer text takes much memory. */
const MAX_LENGTH = 10_000

/** Throws a Failure that says what is wrong. A missing value, null and an empty text are the same. */
export function checkRow(
  values: Values,
  secret: SecretField,
  maxCost: number,
  now: Date,
): CheckedRow {
  const id = textIn(values, 'id')
  if (id !== null && !isUuid(id)) throw new Failure('id is not a UUID: --map id= leaves it out.')
  const [name, role] = [textIn(values, 'name'), textIn(values, 'role')]
  const lockedUntil = timeIn(values, 'lockedUntil')
  const typedEmail = textIn(values, 'email')
  if (typedEmail === null) throw new Failure('email is missing.')
  const email = parseNewEmail(typedEmail)
  return {
    id: id?.toLowerCase() ?? null,
    // A copy: a part of the text of its line keeps that text in memory, and takes longer to compare.
    email: Buffer.from(email).toString(),
    name: parseName(name ?? typedEmail.replace(/@[^@]*$/, '')),
    isNameMade: name === null,
    role: role === null ? null : parseRole(role),
    isActive: activeIn(values),
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
    const advice =
      kind === 'bcrypt'
        ? 'add --map password=passwordHash instead of --hash-passwords'
        : 'it cannot be imported; if it is a password, use "users add"'
    throw new Failure(`password seems to be a hash (${kind}): ${advice}.`)
  }
  const hash = withoutAlgorithm(given)
  const cost = costOf(hash)
  if (cost === null && hash.startsWith('$2')) {
    throw new Failure('passwordHash is not a bcrypt hash ($2a$, $2b$ or $2y$).')
  }
  if (cost === null) return { problem: `passwordHash is ${kind ?? 'no hash'}, not bcrypt` }
  if (cost <= maxCost) return { hash }
  return { problem: `passwordHash has the cost ${cost}, which is above BCRYPT_COST (${maxCost})` }
}

function textIn(values: Values, field: string): string | null {
  const value = values[field] ?? ''
  if (typeof value !== 'string') throw new Failure(`${field} must be text.`)
  if (value.length > MAX_LENGTH) throw new Failure(`${field} has ${value.length} characters.`)
  return value === '' ? null : value
}

function activeIn(values: Values): boolean | null {
  const { isActive = null, [IS_OFF]: off = null } = values
  if (off !== null) return !(flagOf(off) ?? timeIn(values, IS_OFF))
  const flag = flagOf(isActive)
  if (flag === null && isActive !== null) throw new Failure('isActive must be true or false.')
  return flag
}

function timeIn(values: Values, field: string): Date | null {
  const text = textIn(values, field)
  if (text === null) return null
  const [, day, clock, zone = 'Z'] = SQL_TIME.exec(text) ?? []
  if (day === undefined) return parseTypedTime(field, text)
  return parseTypedTime(field, `${day}T${clock}${zone.length === 3 ? `${zone}:00` : zone}`)
}
