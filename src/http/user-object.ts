// The user as every answer shows it.
import type { User } from '../storage/store.ts'

export function toUserObject({ id, email, name, role, createdAt }: User) {
  return { id, email, name, role, createdAt: createdAt.toISOString() }
}
