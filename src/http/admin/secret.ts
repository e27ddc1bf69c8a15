// The password of a request, or its hash from another system.
import { WrongUse } from '../../admin/failures.ts'
import type { GivenPassword } from '../../admin/operations/new-password.ts'
import { parsePassword } from '../../admin/terminal/arguments.ts'
import { costOf } from '../../bcrypt/hash-text.ts'
import { InvalidInput, read, readBoolean, type Values } from './input.ts'
import type { RouteDeps } from './route.ts'

export const SECRET_FIELDS = ['password', 'passwordHash', 'allowWeak'] as const

/** Exactly one of password and hash must be given. */
export function secretOf(body: Values, { bcryptCost }: RouteDeps): GivenPassword {
  const password = read(body, 'password', parsePassword)
  const passwordHash = read(body, 'passwordHash', typed => parseGivenHash(typed, bcryptCost))
  const allowWeak = readBoolean(body, 'allowWeak')
  if (password !== undefined && passwordHash === undefined) return { password, allowWeak }
  if (passwordHash !== undefined && password === undefined) return { passwordHash }
  throw new InvalidInput('Send either password or passwordHash.', 'password')
}

function parseGivenHash(typed: string, maxCost: number): string {
  const cost = costOf(typed)
  if (cost !== null && cost <= maxCost) return typed
  throw new WrongUse(`passwordHash takes a bcrypt hash ($2a, $2b or $2y) of cost 4 to ${maxCost}.`)
}
