// The password of a request, or its hash from another system.
import { WrongUse } from '../../admin/failures.ts'
import type { AdminDeps } from '../../admin/operations/deps.ts'
import {
  DEFAULT_END,
  generatePassword,
  parseValid,
} from '../../admin/operations/temporary-password.ts'
import { parsePassword } from '../../admin/terminal/arguments.ts'
import { costOf } from '../../bcrypt/hash-text.ts'
import { InvalidInput, read, readBoolean, type Values } from './input.ts'
import type { RouteDeps } from './route.ts'

export const SECRET_FIELDS = ['password', 'passwordHash', 'generate', 'temporary', 'valid'] as const

export type Secret = {
  /** Empty if the hash is given. */
  password: string
  hashPassword: AdminDeps['hashPassword']
  temporaryUntil: Date | null
  /** For the answer. */
  shown: { password?: string; temporaryUntil?: Date }
}

/** Exactly one of `password`, `passwordHash` and `generate` must be given. A generated password is temporary. */
export function secretOf(body: Values, deps: RouteDeps): Secret {
  const { bcryptCost, hashPassword, clock } = deps
  const password = read(body, 'password', parsePassword)
  const given = read(body, 'passwordHash', typed => parseGivenHash(typed, bcryptCost))
  const isGenerated = readBoolean(body, 'generate') ?? false
  const isTemporary = readBoolean(body, 'temporary') ?? isGenerated
  const valid = read(body, 'valid', typed => parseValid('valid')(typed)(clock()))
  if (valid && !isTemporary) throw new InvalidInput('valid is for temporary passwords.', 'valid')
  const temporaryUntil = isTemporary ? (valid ?? DEFAULT_END(clock())) : null
  const end = { temporaryUntil, shown: temporaryUntil ? { temporaryUntil } : {} }
  if ([password !== undefined, given !== undefined, isGenerated].filter(Boolean).length !== 1) {
    throw new InvalidInput('Send one of password, passwordHash and generate.', 'password')
  }
  if (given !== undefined) return { ...end, password: '', hashPassword: async () => given }
  if (password !== undefined) return { ...end, password, hashPassword }
  const generated = generatePassword()
  return {
    ...end,
    password: generated,
    hashPassword,
    shown: { password: generated, ...end.shown },
  }
}

function parseGivenHash(typed: string, maxCost: number): string {
  const cost = costOf(typed)
  if (cost !== null && cost <= maxCost) return typed
  throw new WrongUse(`passwordHash takes a bcrypt hash ($2a, $2b or $2y) of cost 4 to ${maxCost}.`)
}
