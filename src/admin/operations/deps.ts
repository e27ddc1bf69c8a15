// What every operation of an administrator is given. Operations know neither terminals nor HTTP.
import type { Actor, Change } from '../../domain/audit.ts'
import type { Store } from '../../domain/store.ts'

export type AdminDeps = {
  store: Store
  clock: () => Date
  by: Actor
  /** See Change. */
  userId?: string
  hashPassword: (password: string) => Promise<string>
}

export function changeNow({ clock, by, userId }: AdminDeps): Change {
  return { at: clock(), by, ...(userId && { userId }) }
}
