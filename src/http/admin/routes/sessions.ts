// Live sessions and known devices: lists those of a user, ends or revokes them.
import { WrongUse } from '../../../admin/failures.ts'
import { parseId } from '../../../admin/input/values.ts'
import { endSession, endSessions, revokeDevice } from '../../../admin/operations/sessions.ts'
import { isUuid } from '../../../identifiers.ts'
import { named, whole } from '../../openapi/operation.ts'
import { adminRoute, userOf } from '../route.ts'
import { countField, DEVICE, listOf, NEXT, PAGE_MAX, SHOWN_SESSION } from '../schemas.ts'

export const userSessionsRoute = adminRoute(
  {
    operationId: 'listSessions',
    summary: 'List the live sessions of a user',
    description: 'In the order of their logins.',
    query: {
      limit: countField('limit'),
      after: { description: '`next` of the previous page.', parse: parseId },
    },
    data: named('SessionPage', whole({ sessions: listOf(SHOWN_SESSION), next: NEXT })),
  },
  async (deps, { named, query: { limit = PAGE_MAX, after: afterId = null } }) => {
    const user = await userOf(deps, named)
    // One more row than asked for shows whether there is a next page.
    const page = { afterId, limit: limit + 1 }
    const isId = afterId === null || isUuid(afterId)
    const found = isId ? await deps.store.sessions.listLive(user.id, page, deps.clock()) : null
    if (!found) throw new WrongUse('after must be the id of a session of this user.', 'after')
    const sessions = found.slice(0, limit)
    return { sessions, next: found.length > limit ? (sessions.at(-1)?.id ?? null) : null }
  },
)

export const endUserSessionsRoute = adminRoute(
  {
    operationId: 'endSessions',
    summary: 'End all sessions of a user',
    description: 'Known devices stay.',
    data: named(
      'EndedSessions',
      whole({ ended: { type: 'integer', description: 'How many.', examples: [2] } }),
    ),
  },
  async (deps, { named }) => ({ ended: await endSessions(deps, await userOf(deps, named)) }),
)

export const endAnySessionRoute = adminRoute(
  {
    operationId: 'endSession',
    summary: 'End a session',
    description: 'Of any user.',
  },
  (deps, { named }) => endSession(deps, parseId(named)),
)

export const devicesRoute = adminRoute(
  {
    operationId: 'listDevices',
    summary: 'List the known devices of a user',
    description: 'Browsers that have logged in before, which have their own budget of failures.',
    data: named('DeviceList', whole({ devices: listOf(DEVICE) })),
  },
  async (deps, { named }) => {
    const { id } = await userOf(deps, named)
    return { devices: await deps.store.devices.list(id, deps.clock()) }
  },
)

export const revokeDeviceRoute = adminRoute(
  {
    operationId: 'revokeDevice',
    summary: 'Revoke a known device',
    description: 'Its browser becomes an unknown one. Its sessions stay.',
  },
  (deps, { named }) => revokeDevice(deps, parseId(named)),
)
