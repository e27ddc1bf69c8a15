// Operations on the sessions and devices of users. Each throws a Failure if it cannot be done.
import type { User } from '../../domain/user.ts'
import { isUuid } from '../../identifiers.ts'
import { Failure, userNotFound } from '../failures.ts'
import { type AdminDeps, changeNow } from './deps.ts'

export async function endSession(deps: AdminDeps, id: string): Promise<void> {
  if (!isUuid(id) || !(await deps.store.sessions.endByAdministrator(id, changeNow(deps)))) {
    throw new Failure(`There is no live session ${id}.`, { code: 'not-found' })
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
    throw new Failure(`There is no device ${id}.`, { code: 'not-found' })
  }
}
