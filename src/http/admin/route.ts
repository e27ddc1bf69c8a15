// What every route of the admin API is given, and the user that its address names.
import type { FastifyRequest } from 'fastify'
import { Refusal } from '../../admin/failures.ts'
import type { ThrottleDeps } from '../../admin/operations/throttle.ts'
import type { User } from '../../domain/user.ts'
import { isUuid } from '../../identifiers.ts'
import { canonicalEmail, problemWithEmail } from '../../login/credentials.ts'
import { paramOf, type Values } from './input.ts'
import type { WorkQueue } from './limits.ts'

export type RouteDeps = ThrottleDeps & {
  bcryptCost: number
  oneAtATime: WorkQueue
}

/** Throws a Refusal or InvalidInput if the request cannot be performed. `isNew`: it is answered with 201. */
export type Handler = (
  deps: RouteDeps,
  request: FastifyRequest,
  query: Values,
) => Promise<{ data: object; isNew?: boolean }>

/** The user with this email or id. */
export async function userOf({ store }: RouteDeps, request: FastifyRequest): Promise<User> {
  const named = paramOf(request, 'user')
  const email = canonicalEmail(named)
  const user = isUuid(named)
    ? await store.users.findById(named.toLowerCase())
    : problemWithEmail(email)
      ? null
      : await store.users.findByEmail(email)
  if (!user) throw new Refusal('not-found', 'There is no user with this email or id.')
  return user
}
