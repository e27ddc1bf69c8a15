// Which fields of a user the columns of a file are: what the options say, and otherwise what the content tells.

import type { ImportedUser } from '../../domain/import.ts'
import type { ListedUser } from '../../domain/user.ts'
import { Failure, WrongUse } from '../../system/failures.ts'
import { isUuid } from '../../system/identifiers.ts'
import {
  FORMATS,
  isActiveIn,
  isEmpty,
  isOffColumn,
  isStateColumn,
  type UserFormat,
} from './formats.ts'
import { commonKindOf, hashKindOf } from './hash-kinds.ts'
import { REASON, type Records, type Values } from './records.ts'

export type SecretField = 'passwordHash' | 'password'
/** Values of --map: an empty field leaves the column out. */
export type ColumnMap = Record<string, string>
export type ColumnOptions = {
  from?: string
  map?: ColumnMap
  ignoreUnknown?: boolean
  hashPasswords?: boolean
  withoutPasswords?: 'skip' | 'temporary'
}

type Unlisted = 'isIdGiven' | 'isNameMade' | 'allowWeak' | 'passwordHash'

/** An export has them in this order, then `REPORTED_FIELDS`, and may add the hash. */
export const EXPORTED_FIELDS = Object.keys({
  ...{ id: 1, email: 1, name: 1, role: 1, isActive: 1, lockedUntil: 1, temporaryUntil: 1 },
  createdAt: 1,
} satisfies Record<Exclude<keyof ImportedUser, Unlisted>, 1>)
/** For auditors. An import leaves them out: the user has neither logged in here yet nor set up a second factor. */
export const REPORTED_FIELDS = ['lastLoginAt', 'secondFactor'] satisfies (keyof ListedUser)[]
/** A column with the opposite of `isActive`, or the time since when a user is not active. */
export const IS_OFF = '!isActive'
export const MAPPED_FIELDS = [...EXPORTED_FIELDS, 'passwordHash', 'password', IS_OFF]

/** `valuesOf` gives the values of a row by the names of the fields, or says what is wrong. */
export function readColumns(name: string, records: Records, options: ColumnOptions) {
  const { columns, heading } = records
  if (heading?.some(column => column.includes('@') || hashKindOf(column))) {
    // They are not printed: one of them may be a password.
    throw new Failure(
      `The first line of ${name} has values, not the names of columns: add a line such as email,name,passwordHash.`,
    )
  }
  const { from = '', map = {}, hashPasswords } = options
  const isOwn = from === 'csv' || from === 'ndjson'
  const format = isOwn ? null : (FORMATS[from] ?? formatOf(columns))
  const secret: SecretField = hashPasswords ? 'password' : 'passwordHash'
  const mapped = Object.keys(map).find(column => map[column] === secret)
  if (format && hashPasswords && mapped === undefined) {
    throw new WrongUse(
      `${name} seems to come from ${format.title}, which has hashes: leave out --hash-passwords. If it has passwords in plain text, add --from ${heading ? 'csv' : 'ndjson'}.`,
    )
  }
  const own = Object.fromEntries([...EXPORTED_FIELDS, secret].map(field => [field, field]))
  const reported = Object.fromEntries(REPORTED_FIELDS.map(field => [field, null]))
  const known: Record<string, string | null> = {
    ...(format?.columns ?? { ...own, ...reported }),
    ...map,
    ...{ [REASON]: null, [format?.confirmed ?? REASON]: null },
  }
  const names = new Map(Object.keys(known).map(column => [column.toLowerCase(), column]))
  /** The name by which a column is known, which a file may have in capitals. */
  const knownAs = (column: string) =>
    Object.hasOwn(known, column) ? column : (names.get(column.toLowerCase()) ?? column)
  const isKnown = (column: string) =>
    Object.hasOwn(known, column) || (format !== null && isStateColumn(column, format))
  const present = columns.map(knownAs)
  if (!format && mapped === undefined) refuseOtherSecret(records, present, secret)
  if (secret === 'password') refuseHashes(records, mapped ?? secret)
  if (heading) {
    if (new Set(present).size < present.length) throw new Failure('A column occurs twice.')
    const absent = Object.keys(map).find(column => !present.includes(column))
    if (absent !== undefined) throw new WrongUse(`--map ${absent}=…: there is no such column.`)
  }
  const isRefusing = !format && !options.ignoreUnknown
  const unknown = present.filter(column => !isKnown(column))
  if (isRefusing && unknown.length > 0) {
    throw new Failure(`The columns do not fit: ${describeUnknown(unknown)}.`)
  }
  if (heading) {
    const required = ['email', ...(options.withoutPasswords === 'temporary' ? [] : [secret])]
    const fields = present.map(column => known[column])
    const missing = required.filter(field => !fields.includes(field))
    if (missing.length > 0) {
      throw new Failure(
        `The file needs the columns ${required.join(', ')}, and may have ${EXPORTED_FIELDS.join(', ')}. ` +
          `Missing: ${missing.join(', ')}. If a column has another name, add --map COLUMN=FIELD.`,
      )
    }
  }
  /** Columns that are not taken. Rows of JSON may add some. */
  const ignored = new Set(unknown)
  return {
    ...{ secret, title: format?.title, ignored },
    valuesOf(given: Values): Values | string {
      const renamed = Object.entries(given).map(([each, value]) => [knownAs(each), value] as const)
      const row: Values = Object.fromEntries(renamed.filter(([column]) => isKnown(column)))
      const others = renamed.flatMap(([column]) => (isKnown(column) ? [] : [column]))
      if (isRefusing && others.length > 0) return describeUnknown(others)
      for (const column of others) ignored.add(column)
      return format ? valuesIn(row, format, map) : fieldsIn(row, known)
    },
  }
}

/** The format whose columns these are; null for the fields of this service. */
function formatOf(columns: string[]): UserFormat | null {
  const present = columns.map(column => column.toLowerCase())
  const hasMarks = ({ marks }: UserFormat) =>
    marks.every(mark => present.includes(mark.toLowerCase()))
  return Object.values(FORMATS).find(hasMarks) ?? null
}

function valuesIn(row: Values, format: UserFormat, map: ColumnMap): Values {
  const values: Values = {
    ...fieldsIn(row, format.columns),
    ...format.computed?.(row),
    isActive: isActiveIn(row, format),
    ...fieldsIn(row, map),
  }
  // Other systems number their users.
  if (!isUuid(values.id)) delete values.id
  return values
}

function fieldsIn(row: Values, columns: Record<string, string | null>): Values {
  const values: Values = {}
  for (const column of Object.keys(row)) {
    const field = Object.hasOwn(columns, column) ? columns[column] : null
    if (field) values[field] = isEmpty(row[column]) ? null : row[column]
  }
  return values
}

function describeUnknown(unknown: string[]): string {
  const names = unknown.map(column => `"${column}"`).join(', ')
  const what = unknown.length === 1 ? 'is not a field' : 'are not fields'
  const off = unknown.find(isOffColumn)
  const example = off ? ` (${off}=${IS_OFF})` : ''
  return `${names} ${what} of a user: add --map COLUMN=FIELD${example}, or --ignore-unknown`
}

function refuseOtherSecret(records: Records, present: string[], secret: SecretField): void {
  const isPresent = (field: SecretField) =>
    present.some(column => column.toLowerCase() === field.toLowerCase())
  if (secret === 'passwordHash' && isPresent('password')) {
    refuseHashes(records, 'password')
    throw new WrongUse(
      'The file has passwords in plain text: add --hash-passwords to store their hashes.',
    )
  }
  if (secret === 'password' && isPresent('passwordHash')) {
    throw new WrongUse('The file has hashes of passwords: leave out --hash-passwords.')
  }
}

function refuseHashes({ sample }: Records, column: string): void {
  const isIt = ([name, value]: [string, unknown]) =>
    name.toLowerCase() === column.toLowerCase() && typeof value === 'string' && value !== ''
  const texts = sample.flatMap(row => Object.entries(row).filter(isIt))
  const kind = commonKindOf(texts.map(([, text]) => String(text)))
  if (!kind) return
  const seems = `The column "${column}" seems to have hashes (${kind})`
  const advice = `add --map ${column}=passwordHash, not --hash-passwords`
  throw new WrongUse(
    kind === 'bcrypt'
      ? `${seems}: ${advice}.`
      : `${seems}, which cannot be imported: ${advice}, and --without-passwords temporary or skip (docs/migrating.md).`,
  )
}
