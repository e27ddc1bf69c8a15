// Operations on the sessions and devices of users. Each throws a Refusal if it cannot be done.
import { isUuid } from '../../identifiers.ts'
import { Refusal, userNotFound } from '../failures.ts'
import { type AdminDeps, changeNow } from './deps.ts'

export async function endSession(deps: AdminDeps, id: string): Promise<void> {
  if (!isUuid(id) || !(await deps.store.endUserSession(id, changeNow(deps)))) {
    throw new Refusal('not-found', `There is no live session ${id}.`)
  }
}

/** Returns how many sessions ended. */
export async function endSessions(deps: AdminDeps, email: string): Promise<number> {
  const ended = await deps.store.endUserSessions(email, changeNow(deps))
  if (ended === null) throw userNotFound(email)
  return ended
}

export async function revokeDevice(deps: AdminDeps, id: string): Promise<void> {
  if (!isUuid(id) || !(await deps.store.revokeDevice(id, changeNow(deps)))) {
    throw new Refusal('not-found', `There is no device ${id}.`)
  }
}
