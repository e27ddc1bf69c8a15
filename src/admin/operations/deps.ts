// What every operation of an administrator is given. Operations know neither terminals nor HTTP.
import type { Budgets } from '../../domain/attempt.ts'
import type { Actor, Change } from '../../domain/audit.ts'
import type { Store } from '../../domain/store.ts'
import type { DemandingRoles } from '../../session/demanded-factor.ts'

export type AdminStore = Pick<
  Store,
  | ('users' | 'secondFactors' | 'sessions' | 'devices')
  | ('throttle' | 'adminTokens' | 'audit' | 'imports')
>

export type AdminDeps = {
  store: AdminStore
  /** The clock that the service uses, see cluster-clock.ts. */
  clock: () => Date
  by: Actor
  /** In the console: what the person at it has seen of the user. */
  seen?: Change['seen']
  budgets: Budgets
  bcryptCost: number
  secondFactorRoles: DemandingRoles
  hashPassword: (password: string) => Promise<string>
  passwordRules: {
    minLength: number
    brandName: string
    /** What a caller does to overrule them, as the end of a sentence. */
    toOverrule: string
  }
  /** Runs what takes a core for long. */
  oneAtATime: <T>(work: () => Promise<T>) => Promise<T>
}

export function changeNow({ clock, by, seen }: Pick<AdminDeps, 'clock' | 'by' | 'seen'>): Change {
  return { at: clock(), by, seen }
}
