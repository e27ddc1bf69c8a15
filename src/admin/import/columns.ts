// Which fields of a user the columns of a file are: what the options say, and otherwise what the content tells.

import type { ImportedUser } from '../../domain/import.ts'
import { Failure, WrongUse } from '../../failures.ts'
import { isUuid } from '../../identifiers.ts'
import { FORMATS, isEmpty, type UserFormat } from './formats.ts'
import { hashKindOf } from './hash-kinds.ts'
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

/** An export has them in this order, and may add the hash. */
export const EXPORTED_FIELDS = Object.keys({
  ...{ id: 1, email: 1, name: 1, role: 1, isActive: 1, lockedUntil: 1, temporaryUntil: 1 },
  createdAt: 1,
} satisfies Record<Exclude<keyof ImportedUser, 'isIdGiven' | 'allowWeak' | 'passwordHash'>, 1>)
export const IMPORTED_FIELDS = [...EXPORTED_FIELDS, 'passwordHash', 'password']

/** `valuesOf` gives the values of a row by the names of the fields, or says what is wrong. */
export function readColumns(name: string, records: Records, options: ColumnOptions) {
  const { columns, container } = records
  const { from = '', map = {}, hashPasswords } = options
  const isOwn = from === 'csv' || from === 'ndjson'
  const format = isOwn ? null : (FORMATS[from] ?? formatOf(columns))
  const secret: SecretField = hashPasswords ? 'password' : 'passwordHash'
  const isMapped = Object.values(map).includes(secret)
  if (format && hashPasswords && !isMapped) {
    throw new WrongUse(
      `${name} seems to come from ${format.title}, which has hashes: leave out --hash-passwords. If it has passwords in plain text, add --from ${container === 'csv' ? 'csv' : 'ndjson'}.`,
    )
  }
  if (!format && !isMapped) refuseOtherSecret(records, secret)
  if (secret === 'password') refuseHashes(records, map)
  const own = Object.fromEntries([...EXPORTED_FIELDS, secret].map(field => [field, field]))
  const known: Record<string, string | null> = {
    ...(format?.columns ?? own),
    ...map,
    [REASON]: null,
  }
  const unknownIn = (names: string[]) => names.filter(column => !Object.hasOwn(known, column))
  const isRefusing = !format && !options.ignoreUnknown

  const absent = Object.keys(map).find(column => !columns.includes(column))
  if (container === 'csv' && absent !== undefined) {
    throw new WrongUse(`--map ${absent}=…: there is no such column.`)
  }
  const unknown = unknownIn(columns)
  if (container === 'csv' && isRefusing && unknown.length > 0) {
    throw new Failure(`The columns do not fit: ${describeUnknown(unknown)}.`)
  }
  if (container === 'csv') {
    const isSecretOptional = options.withoutPasswords === 'temporary'
    const required = ['email', ...(format ? [] : ['name']), ...(isSecretOptional ? [] : [secret])]
    requireFields(
      required,
      columns.map(column => known[column]),
    )
  }
  return {
    secret,
    title: format?.title,
    /** Columns that are not taken. */
    left: format ? unknown : [],
    valuesOf(row: Values): Values | string {
      const others = isRefusing ? unknownIn(Object.keys(row)) : []
      if (others.length > 0) return describeUnknown(others)
      return format ? valuesIn(row, format, map) : fieldsIn(row, known)
    },
  }
}

/** The format whose columns these are; null for the fields of this service. */
function formatOf(columns: string[]): UserFormat | null {
  const hasMarks = ({ marks }: UserFormat) => marks.every(mark => columns.includes(mark))
  return Object.values(FORMATS).find(hasMarks) ?? null
}

function valuesIn(row: Values, format: UserFormat, map: ColumnMap): Values {
  const filled = Object.fromEntries(
    Object.entries(row).map(([column, value]) => [column, isEmpty(value) ? null : value]),
  )
  const values = {
    ...fieldsIn(filled, format.columns),
    ...format.computed(filled),
    ...fieldsIn(filled, map),
  }
  // Other systems number their users, and not all of them have names.
  if (!isUuid(String(values.id))) delete values.id
  if (isEmpty(values.name)) values.name = String(values.email ?? '').replace(/@[^@]*$/, '')
  return values
}

function fieldsIn(row: Values, columns: Record<string, string | null>): Values {
  const values: Values = {}
  for (const [column, value] of Object.entries(row)) {
    const field = Object.hasOwn(columns, column) ? columns[column] : null
    if (field) values[field] = value
  }
  return values
}

function describeUnknown(unknown: string[]): string {
  const names = unknown.map(column => `"${column}"`).join(', ')
  const what = unknown.length === 1 ? 'is not a field' : 'are not fields'
  return `${names} ${what} of a user: add --map COLUMN=FIELD, or --ignore-unknown`
}

function requireFields(required: string[], fields: (string | null | undefined)[]): void {
  const missing = required.filter(field => !fields.includes(field))
  if (missing.length === 0) return
  throw new Failure(
    `The file needs the columns ${required.join(', ')}, and may have ${EXPORTED_FIELDS.join(', ')}. ` +
      `Missing: ${missing.join(', ')}. If a column has another name, add --map COLUMN=FIELD.`,
  )
}

function refuseOtherSecret({ columns, first }: Records, secret: SecretField): void {
  if (secret === 'passwordHash' && columns.includes('password')) {
    const kind = hashKindOf(String(first.password))
    throw new WrongUse(
      kind
        ? `The column "password" seems to have hashes (${kind}): add --map password=passwordHash.`
        : 'The file has passwords in plain text: add --hash-passwords to store their hashes.',
    )
  }
  if (secret === 'password' && columns.includes('passwordHash')) {
    throw new WrongUse('The file has hashes of passwords: leave out --hash-passwords.')
  }
}

function refuseHashes({ first }: Records, map: ColumnMap): void {
  const column = Object.keys(map).find(each => map[each] === 'password') ?? 'password'
  const kind = hashKindOf(String(first[column]))
  if (!kind) return
  throw new WrongUse(
    `The column "${column}" seems to have hashes (${kind}): add --map ${column}=passwordHash instead of --hash-passwords.`,
  )
}
