// What other systems export: their columns, and the field of a user that each one becomes (null: none). A column
// that is not listed here is the team's own, and the import asks what to do with it.
import type { Values } from './records.ts'

export type UserFormat = {
  title: string
  /** The format is recognised by these columns. */
  marks: string[]
  columns: Record<string, string | null>
  /** Fields that are made of several columns, or of parts of one. */
  computed: (row: Values) => Values
}

/**
 * Devise for Rails: https://github.com/heartcombo/devise (the template of its migration). A user whose email is not
 * confirmed cannot log in there. Locks after failed logins stay behind, as this service's do in an export.
 */
const DEVISE: UserFormat = {
  title: 'Devise',
  marks: ['encrypted_password'],
  columns: {
    id: 'id',
    email: 'email',
    name: 'name',
    encrypted_password: 'passwordHash',
    created_at: 'createdAt',
    confirmed_at: null,
    ...without(['reset_password_token', 'reset_password_sent_at', 'remember_created_at']),
    ...without(['sign_in_count', 'current_sign_in_at', 'last_sign_in_at', 'current_sign_in_ip']),
    ...without(['last_sign_in_ip', 'confirmation_token', 'confirmation_sent_at']),
    ...without(['unconfirmed_email', 'failed_attempts', 'unlock_token', 'locked_at', 'updated_at']),
  },
  computed: row => inactiveIf('confirmed_at' in row && isEmpty(row.confirmed_at)),
}

/** Laravel: https://laravel.com/docs/migrations and database/migrations/…_create_users_table.php of laravel/laravel. */
const LARAVEL: UserFormat = {
  title: 'Laravel',
  marks: ['password', 'remember_token'],
  columns: {
    id: 'id',
    email: 'email',
    name: 'name',
    password: 'passwordHash',
    created_at: 'createdAt',
    ...without(['email_verified_at', 'remember_token', 'updated_at', 'deleted_at']),
    ...without(['two_factor_secret', 'two_factor_recovery_codes', 'two_factor_confirmed_at']),
    ...without(['current_team_id', 'profile_photo_path']),
  },
  computed: row => inactiveIf(!isEmpty(row.deleted_at)),
}

/** Supabase: https://supabase.com/docs/guides/auth/managing-user-data (the table auth.users as CSV). */
const SUPABASE: UserFormat = {
  title: 'Supabase',
  marks: ['encrypted_password', 'raw_user_meta_data'],
  columns: {
    id: 'id',
    email: 'email',
    encrypted_password: 'passwordHash',
    created_at: 'createdAt',
    banned_until: 'lockedUntil',
    ...without(['instance_id', 'aud', 'role', 'email_confirmed_at', 'confirmed_at', 'deleted_at']),
    ...without(['raw_user_meta_data', 'raw_app_meta_data', 'is_super_admin', 'is_sso_user']),
    ...without(['is_anonymous', 'invited_at', 'confirmation_token', 'confirmation_sent_at']),
    ...without(['recovery_token', 'recovery_sent_at', 'email_change', 'email_change_sent_at']),
    ...without(['email_change_token_new', 'email_change_token_current']),
    ...without(['email_change_confirm_status', 'phone', 'phone_confirmed_at', 'phone_change']),
    ...without(['phone_change_token', 'phone_change_sent_at', 'reauthentication_token']),
    ...without(['reauthentication_sent_at', 'last_sign_in_at', 'updated_at']),
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
    email: 'email',
    name: 'name',
    passwordHash: 'passwordHash',
    ...without(['_id', 'alt_id', 'user_id', 'tenant', 'connection', '_tmp_is_unique']),
    ...without(['email_verified', 'identifiers', 'password_set_date', 'blocked', 'created_at']),
    ...without(['username', 'nickname', 'given_name', 'family_name', 'picture', 'updated_at']),
    ...without(['identities', 'user_metadata', 'app_metadata', 'phone_number', 'phone_verified']),
    ...without(['last_ip', 'last_login', 'logins_count', 'last_password_reset', 'multifactor']),
  },
  computed(row) {
    const identifiers = Array.isArray(row.identifiers) ? row.identifiers.map(objectIn) : []
    const { value } = identifiers.find(({ type }) => type === 'email') ?? {}
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
    id: 'id',
    email: 'email',
    enabled: 'isActive',
    ...without(['username', 'firstName', 'lastName', 'createdTimestamp', 'credentials', 'totp']),
    ...without(['emailVerified', 'attributes', 'disableableCredentialTypes', 'requiredActions']),
    ...without(['realmRoles', 'clientRoles', 'clientConsents', 'notBefore', 'groups', 'access']),
    ...without(['federatedIdentities', 'federationLink', 'serviceAccountClientId']),
    ...without(['self', 'origin']),
  },
  computed({ firstName, lastName, createdTimestamp, credentials }) {
    const all = Array.isArray(credentials) ? credentials.map(objectIn) : []
    const password = all.find(({ type }) => type === 'password')
    const { algorithm } = objectIn(password?.credentialData)
    const { value } = objectIn(password?.secretData)
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
  supabase: SUPABASE,
  devise: DEVISE,
  laravel: LARAVEL,
  auth0: AUTH0,
  keycloak: KEYCLOAK,
}

export function isEmpty(value: unknown): boolean {
  return ['', null, undefined, 'NULL', '\\N', '0000-00-00 00:00:00'].includes(value as string)
}

function without(columns: string[]): Record<string, null> {
  return Object.fromEntries(columns.map(column => [column, null]))
}

function inactiveIf(isInactive: boolean): Values {
  return isInactive ? { isActive: false } : {}
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
