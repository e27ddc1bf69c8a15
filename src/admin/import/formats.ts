// What other systems export, and the field of a user that each column becomes. Null: the column is read for a computed
// field. All other columns are left out, and the import names them.
import type { Values } from './records.ts'

export type UserFormat = {
  title: string
  /** The format is recognised by these columns. */
  marks: string[]
  columns: Record<string, string | null>
  /** Fields that are made of several columns, or of parts of one. */
  computed: (row: Values) => Values
}

const RAILS_NAMES = { id: 'id', email: 'email', name: 'name', created_at: 'createdAt' }

/**
 * Devise for Rails: https://github.com/heartcombo/devise (the template of its migration). A user whose email is not
 * confirmed cannot log in there. Locks after failed logins stay behind, as this service's do in an export.
 */
const DEVISE: UserFormat = {
  title: 'Devise',
  marks: ['encrypted_password'],
  columns: { ...RAILS_NAMES, encrypted_password: 'passwordHash', confirmed_at: null },
  computed: row => inactiveIf('confirmed_at' in row && isEmpty(row.confirmed_at)),
}

/** Laravel: https://laravel.com/docs/migrations and database/migrations/…_create_users_table.php of laravel/laravel. */
const LARAVEL: UserFormat = {
  title: 'Laravel',
  marks: ['password', 'remember_token'],
  columns: { ...RAILS_NAMES, password: 'passwordHash', deleted_at: null },
  computed: row => inactiveIf(!isEmpty(row.deleted_at)),
}

/** Supabase: https://supabase.com/docs/guides/auth/managing-user-data (the table auth.users as CSV). */
const SUPABASE: UserFormat = {
  title: 'Supabase',
  marks: ['encrypted_password', 'raw_user_meta_data'],
  columns: {
    ...{ id: 'id', email: 'email', encrypted_password: 'passwordHash', created_at: 'createdAt' },
    banned_until: 'lockedUntil',
    ...{ raw_user_meta_data: null, email_confirmed_at: null, deleted_at: null },
  },
  computed(row) {
    const { full_name, name } = objectIn(row.raw_user_meta_data)
    const isUnconfirmed = 'email_confirmed_at' in row && isEmpty(row.email_confirmed_at)
    return {
      name: isEmpty(full_name) ? name : full_name,
      ...inactiveIf(isUnconfirmed || !isEmpty(row.deleted_at)),
    }
  },
}

/**
 * Auth0: https://community.auth0.com/t/how-to-use-the-password-hashes-export-from-auth0/58730 (the file with hashes, which
 * has no names) and https://auth0.com/docs/manage-users/user-migration/bulk-user-exports (the file without hashes).
 */
const AUTH0: UserFormat = {
  title: 'Auth0',
  marks: ['_id', 'connection'],
  columns: {
    ...{ email: 'email', name: 'name', passwordHash: 'passwordHash' },
    ...{ identifiers: null, created_at: null, blocked: null },
  },
  computed(row) {
    const { value } = find(row.identifiers, 'email')
    const created = objectIn(row.created_at).$date ?? row.created_at
    return {
      ...(isEmpty(row.email) && { email: value }),
      ...(typeof created === 'string' && { createdAt: created }),
      ...inactiveIf(row.blocked === true),
    }
  },
}

/**
 * Keycloak: https://www.keycloak.org/server/importExport (kc.sh export). Its own hashes are PBKDF2 or Argon2; bcrypt comes
 * from an extension, and is then the value of the credential.
 */
const KEYCLOAK: UserFormat = {
  title: 'Keycloak',
  marks: ['username', 'createdTimestamp'],
  columns: {
    ...{ id: 'id', email: 'email', enabled: 'isActive' },
    ...{ firstName: null, lastName: null, createdTimestamp: null, credentials: null },
  },
  computed({ firstName, lastName, createdTimestamp, credentials }) {
    const { credentialData, secretData } = find(credentials, 'password')
    const { algorithm } = objectIn(credentialData)
    const { value } = objectIn(secretData)
    return {
      name: [firstName, lastName].filter(part => !isEmpty(part)).join(' '),
      passwordHash: algorithm === 'bcrypt' ? value : algorithm && `{${algorithm}}`,
      ...(typeof createdTimestamp === 'number' && {
        createdAt: new Date(createdTimestamp).toISOString(),
      }),
    }
  },
}

/** The first one whose marks a file has is its format. */
export const FORMATS: Record<string, UserFormat> = {
  ...{ supabase: SUPABASE, devise: DEVISE, laravel: LARAVEL, auth0: AUTH0, keycloak: KEYCLOAK },
}

export function isEmpty(value: unknown): boolean {
  return ['', null, undefined, 'NULL', '\\N', '0000-00-00 00:00:00'].includes(value as string)
}

function inactiveIf(isInactive: boolean): Values {
  return isInactive ? { isActive: false } : {}
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
