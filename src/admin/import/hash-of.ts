// The hash of a password in a file.
import { canonicalHash, costOf } from '../../bcrypt/hash-text.ts'
import type { ImportOptions } from '../../domain/import.ts'
import type { AdminDeps } from '../operations/deps.ts'

/** The stored hash, if the user exists and needs no other one. A dry run computes no new one. */
export async function hashOf(
  { store, hashPassword }: AdminDeps,
  email: string,
  password: string,
  { mayUpdate, isDryRun }: ImportOptions,
): Promise<string> {
  const stored = (await store.users.findByEmail(email))?.passwordHash
  if (stored && (!mayUpdate || (await isHashOf(stored, password)))) return stored
  return isDryRun ? '' : hashPassword(password)
}

async function isHashOf(stored: string, password: string): Promise<boolean> {
  if (costOf(stored) === null) return false
  const { compare } = await import('bcrypt')
  return compare(password, canonicalHash(stored))
}
