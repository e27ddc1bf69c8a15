// A service with a console, and people at it.

import type { EngineName } from '../../src/storage/sql/engine.ts'
import { changeAt } from '../storage/fixtures.ts'
import { startAdminService } from './admin-service.ts'
import type { TestService } from './service.ts'
import { createVisitor } from './visitor.ts'

export const ROLES = { ADMIN_ROLES: 'admin,owner', HELPDESK_ROLES: 'help desk' }

export async function startConsole(engine: EngineName, env: Record<string, string> = {}) {
  const service = await startAdminService(engine, { ...ROLES, ...env })
  return {
    ...service,
    /** A user with this role. */
    async newPerson(role: string) {
      const email = await service.newUser()
      await setRole(service, email, role)
      const user = await service.store.users.findByEmail(email)
      return { email, id: user?.id ?? '' }
    },
    /** A browser at the console. */
    visitor: (from?: string) => createVisitor({ call: service.callConsole }, from),
  }
}

export async function setRole({ store, now }: TestService, email: string, role: string) {
  const { id = '' } = (await store.users.findByEmail(email)) ?? {}
  await store.users.set(id, { role }, changeAt(now()))
}
