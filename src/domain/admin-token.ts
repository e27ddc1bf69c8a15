// The tokens of the admin API. Only their digests are stored.
import type { Change } from './audit.ts'

/** `create` adds users, and can neither read nor change the others. */
export const TOKEN_ROLES = ['read', 'write', 'create'] as const
/** The longest time until the end: the same day of the next year is always within it. */
export const TOKEN_MAX_DAYS = 366
/** The last use is written at most this often. */
export const TOKEN_TOUCH_SECONDS = 60
/** A token is listed for this long after its end, so that its refusals in the log have a name. */
export const TOKEN_LISTED_DAYS = 30

export type AdminToken = {
  name: string
  role: (typeof TOKEN_ROLES)[number]
  createdAt: Date
  expiresAt: Date
  /** Null if it has never been used. */
  lastUsedAt: Date | null
}

export type NewAdminToken = Pick<AdminToken, 'name' | 'role' | 'expiresAt'> & {
  /** SHA-256 in hex. */
  digest: string
}

export interface AdminTokenStore {
  /** False, and nothing is changed, if there is a token with this name or digest. */
  insert(token: NewAdminToken, change: Change): Promise<boolean>
  /** Also finds a token that has ended. */
  find(digest: string): Promise<AdminToken | null>
  /** In the order of their names. */
  list(page: { after: string; limit: number }): Promise<AdminToken[]>
  touch(name: string, now: Date): Promise<void>
  /** False if there is none with this name. */
  revoke(name: string, change: Change): Promise<boolean>
}
