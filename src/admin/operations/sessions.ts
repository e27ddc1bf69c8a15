// Operations on the sessions and devices of users. Each throws a Refusal if it cannot be done.
import type { User } from '../../domain/user.ts'
import { isUuid } from '../../identifiers.ts'
import { Refusal, userNotFound } from '../failures.ts'
import { type AdminDeps, changeNow } from './deps.ts'

export async function endSession(deps: AdminDeps, id: string): Promise<void> {
  if (!isUuid(id) || !(await deps.store.sessions.endByAdministrator(id, changeNow(deps)))) {
    throw new Refusal('not-found', `There is no live session ${id}.`)
  }
}

/** Returns how many sessions ended. */
export async function endSessions(deps: AdminDeps, { id, email }: User): Promise<number> {
  const ended = await deps.store.sessions.endAll(id, changeNow(deps))
  if (ended === null) throw userNotFound(email)
  return ended
}

export async function revokeDevice(deps: AdminDeps, id: string): Promise<void> {
  if (!isUuid(id) || !(await deps.store.devices.revoke(id, changeNow(deps)))) {
    throw new Refusal('not-found', `There is no device ${id}.`)
  }
}
