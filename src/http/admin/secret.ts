// The password of a request, or its hash from another system.
import { WrongUse } from '../../admin/failures.ts'
import type { AdminDeps } from '../../admin/operations/deps.ts'
import { parsePassword } from '../../admin/terminal/arguments.ts'
import { costOf } from '../../bcrypt/hash-text.ts'
import { InvalidInput, read, type Values } from './input.ts'
import type { RouteDeps } from './route.ts'

export const SECRET_FIELDS = ['password', 'passwordHash'] as const

export type Secret = {
  /** Empty if the hash is given. */
  password: string
  hashPassword: AdminDeps['hashPassword']
}

/** Exactly one of the two must be given. */
export function secretOf(body: Values, deps: RouteDeps): Secret {
  const { bcryptCost, hashPassword } = deps
  const password = read(body, 'password', parsePassword)
  const given = read(body, 'passwordHash', typed => parseGivenHash(typed, bcryptCost))
  if (password !== undefined && given === undefined) return { password, hashPassword }
  if (given !== undefined && password === undefined) {
    return { password: '', hashPassword: async () => given }
  }
  throw new InvalidInput('Send either password or passwordHash.', 'password')
}

function parseGivenHash(typed: string, maxCost: number): string {
  const cost = costOf(typed)
  if (cost !== null && cost <= maxCost) return typed
  throw new WrongUse(`passwordHash takes a bcrypt hash ($2a, $2b or $2y) of cost 4 to ${maxCost}.`)
}
