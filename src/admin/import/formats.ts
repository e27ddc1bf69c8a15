// What other systems export, and the field of a user that each column becomes. Null: the column is read for a computed
// field. All other columns are left out, and the import names them.
import { Failure } from '../../system/failures.ts'
import type { Values } from './records.ts'

export type UserFormat = {
  title: string
  /** The format is recognised by these columns. */
  marks: string[]
  columns: Record<string, string | null>
  /** A column that is empty until the user may log in. */
  confirmed?: string
  /** Fields that are made of several columns, or of parts of one. */
  computed?: (row: Values) => Values
}

const RAILS_NAMES = { id: 'id', email: 'email', name: 'name', created_at: 'createdAt' }

/** The first one whose marks a file has is its format. */
export const FORMATS: Record<string, UserFormat> = {
  /** https://supabase.com/docs/guides/auth/managing-user-data (the table auth.users as CSV). */
  supabase: {
    title: 'Supabase',
    marks: ['encrypted_password', 'raw_user_meta_data'],
    columns: {
      ...{ id: 'id', email: 'email', encrypted_password: 'passwordHash', created_at: 'createdAt' },
      ...{ banned_until: 'lockedUntil', raw_user_meta_data: null },
    },
    confirmed: 'email_confirmed_at',
    computed(row) {
      const { full_name, name } = objectIn(row.raw_user_meta_data)
      return { name: isEmpty(full_name) ? name : full_name }
    },
  },
  /**
   * Devise for Rails: https://github.com/heartcombo/devise (the template of its migration). A user whose email is not
   * confirmed cannot log in there. Locks after failed logins stay behind, as this service's do in an export.
   */
  devise: {
    title: 'Devise',
    marks: ['encrypted_password'],
    columns: { ...RAILS_NAMES, encrypted_password: 'passwordHash' },
    confirmed: 'confirmed_at',
  },
  /** https://laravel.com/docs/migrations and database/migrations/…_create_users_table.php of laravel/laravel. */
  laravel: {
    title: 'Laravel',
    marks: ['password', 'remember_token'],
    columns: { ...RAILS_NAMES, password: 'passwordHash' },
  },
  /**
   * https://community.auth0.com/t/how-to-use-the-password-hashes-export-from-auth0/58730 (the file with hashes, which
   * has no names) and https://auth0.com/docs/manage-users/user-migration/bulk-user-exports (the file without hashes).
   */
  auth0: {
    title: 'Auth0',
    marks: ['_id', 'connection'],
    columns: {
      ...{ email: 'email', name: 'name', passwordHash: 'passwordHash' },
      ...{ identifiers: null, created_at: null },
    },
    computed(row) {
      const created = objectIn(row.created_at).$date ?? row.created_at
      return {
        ...(isEmpty(row.email) && { email: find(row.identifiers, 'email').value }),
        ...(typeof created === 'string' && { createdAt: created }),
      }
    },
  },
  /**
   * https://www.keycloak.org/server/importExport (kc.sh export). Its own hashes are PBKDF2 or Argon2; bcrypt comes from an
   * extension, and is then the value of the credential.
   */
  keycloak: {
    title: 'Keycloak',
    marks: ['username', 'createdTimestamp'],
    columns: {
      ...{ id: 'id', email: 'email', firstName: null, lastName: null },
      ...{ createdTimestamp: null, credentials: null },
    },
    computed({ firstName, lastName, createdTimestamp, credentials }) {
      const { credentialData, secretData } = find(credentials, 'password')
      const { algorithm } = objectIn(credentialData)
      const { value } = objectIn(secretData)
      return {
        name: [firstName, lastName].filter(part => isText(part) && !isEmpty(part)).join(' '),
        passwordHash: isText(algorithm) && algorithm !== 'bcrypt' ? `{${algorithm}}` : value,
        ...(typeof createdTimestamp === 'number' && {
          createdAt: new Date(createdTimestamp).toJSON() ?? 'never',
        }),
      }
    },
  },
}

/** Columns that say whether a user may log in: by a flag, or by the time since when not. */
const OFF = /^(is_?)?(disabled|banned|blocked|suspended|deactivated|deleted|discarded)(_?at)?$/i
const ON = /^(is_?)?(active|enabled)$/i
export const isOffColumn = (column: string) => OFF.test(column)
export const isStateColumn = (column: string, { confirmed }: UserFormat) =>
  OFF.test(column) || ON.test(column) || column === confirmed

/** Undefined if no column tells it. */
export function isActiveIn(row: Values, format: UserFormat): boolean | undefined {
  const states = Object.entries(row).filter(([column]) => isStateColumn(column, format))
  if (states.length === 0) return undefined
  return states.every(([column, value]) => {
    if (OFF.test(column)) return isEmpty(value) || flagOf(value) === false
    if (!ON.test(column)) return !isEmpty(value)
    const flag = isEmpty(value) || flagOf(value)
    if (flag === null) throw new Failure(`${column} must be true or false.`)
    return flag
  })
}

const YES: unknown[] = ['true', 't', 'yes', 'y', '1', true, 1]
const NO: unknown[] = ['false', 'f', 'no', 'n', '0', false, 0]

/** CSV has text only, and each database writes its own. Null if the value is no flag. */
export function flagOf(value: unknown): boolean | null {
  const flag = isText(value) ? value.toLowerCase() : value
  return YES.includes(flag) || (NO.includes(flag) ? false : null)
}

const isText = (value: unknown) => typeof value === 'string'

/** MySQL has a time for a missing one. */
export function isEmpty(value: unknown): boolean {
  return isText(value) ? value === '' || value.startsWith('0000-00-00') : (value ?? null) === null
}

/** The object of this type in a list; else an empty one. */
function find(list: unknown, type: string): Values {
  const all = Array.isArray(list) ? list.map(objectIn) : []
  return all.find(each => each.type === type) ?? {}
}

/** An object, or the text of one; else an empty one. */
function objectIn(value: unknown): Values {
  if (typeof value === 'object' && value !== null) return { ...value }
  try {
    return typeof value === 'string' ? objectIn(JSON.parse(value)) : {}
  } catch {
    return {}
  }
}
