// Which fields of a user the columns of a file are.
import { isUuid } from '../../identifiers.ts'
import { Failure, WrongUse } from '../failures.ts'
import { FORMATS, isEmpty, type UserFormat } from './formats.ts'
import { REASON, type Values } from './records.ts'

export type SecretField = 'passwordHash' | 'password'
/** Values of --map: an empty field leaves the column out. */
export type ColumnMap = Record<string, string>

/** An export has them in this order, and may add the hash. */
export const EXPORTED_FIELDS = [
  'id',
  'email',
  'name',
  'role',
  'isActive',
  'lockedUntil',
  'temporaryUntil',
  'createdAt',
]
export const IMPORTED_FIELDS = [...EXPORTED_FIELDS, 'passwordHash', 'password']

type FieldOptions = {
  /** Null if the columns have the names of the fields. */
  format: UserFormat | null
  map: ColumnMap
  isIgnoringUnknown: boolean
  secret: SecretField
  /** The file need not have a column for it. */
  isSecretOptional: boolean
}

/** The format whose columns these are; null for the fields of this service. */
export function formatOf(columns: string[]): UserFormat | null {
  const hasMarks = ({ marks }: UserFormat) => marks.every(mark => columns.includes(mark))
  return Object.values(FORMATS).find(hasMarks) ?? null
}

export class FieldReader {
  readonly #options: FieldOptions
  readonly #known: Record<string, string | null>

  constructor(options: FieldOptions) {
    const { format, map, secret } = options
    const own = Object.fromEntries([...EXPORTED_FIELDS, secret].map(field => [field, field]))
    this.#options = options
    this.#known = { ...(format?.columns ?? own), ...map, [REASON]: null }
  }

  /** Refuses a file with columns that are not known, or that lacks one. */
  checkColumns(columns: string[]): void {
    const { format, map, secret, isSecretOptional } = this.#options
    const absent = Object.keys(map).find(column => !columns.includes(column))
    if (absent !== undefined) throw new WrongUse(`--map ${absent}=…: there is no such column.`)
    const problem = this.#problemWith(columns)
    if (problem) throw new Failure(`The columns do not fit: ${problem}.`)
    const required = ['email', ...(format ? [] : ['name']), ...(isSecretOptional ? [] : [secret])]
    const fields = columns.map(column => this.#known[column])
    const missing = required.filter(field => !fields.includes(field))
    if (missing.length === 0) return
    throw new Failure(
      `The file needs the columns ${required.join(', ')}, and may have ${EXPORTED_FIELDS.join(', ')}. ` +
        `Missing: ${missing.join(', ')}. If a column has another name, add --map COLUMN=FIELD.`,
    )
  }

  /** The values of a user, by the names of the fields; or what is wrong. */
  valuesOf(row: Values): Values | string {
    const problem = this.#problemWith(Object.keys(row))
    if (problem) return problem
    const { format, map } = this.#options
    if (!format) return fieldsIn(row, this.#known)
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

  #problemWith(columns: string[]): string | null {
    if (this.#options.isIgnoringUnknown) return null
    const unknown = columns.filter(column => !Object.hasOwn(this.#known, column))
    if (unknown.length === 0) return null
    const names = unknown.map(column => `"${column}"`).join(', ')
    const what = unknown.length === 1 ? 'is not a field' : 'are not fields'
    return `${names} ${what} of a user: add --map COLUMN=FIELD, or --ignore-unknown`
  }
}

function fieldsIn(row: Values, columns: Record<string, string | null>): Values {
  const values: Values = {}
  for (const [column, value] of Object.entries(row)) {
    const field = Object.hasOwn(columns, column) ? columns[column] : null
    if (field) values[field] = value
  }
  return values
}
