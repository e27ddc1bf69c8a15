// GET …/data: everything that is stored about a user, in pages: first the sessions, then the audit events.
import { eventIdParser } from '../../../admin/input/values.ts'
import {
  listEventsOf,
  listStoredSessions,
  recordExport,
  summarizeUser,
} from '../../../admin/operations/user-data.ts'
import type { User } from '../../../domain/user.ts'
import { isUuid } from '../../../identifiers.ts'
import { named as component, whole } from '../../openapi/operation.ts'
import { adminRoute, type RouteDeps, userOf } from '../route.ts'
import {
  countField,
  DEVICE_WITH_FAILURES,
  EVENT_OF_USER,
  LAST_LOGIN,
  listOf,
  NEXT,
  PAGE_MAX,
  SHOWN_USER,
  STORED_SESSION,
  THROTTLE,
} from '../schemas.ts'

/** `after` is the id of a session or event, or this word: the page has the first events. */
const FIRST_EVENTS = 'events'

type Position = { sessionId: string | null } | { eventId: number | null }

const parseEventId = eventIdParser('after')
function parsePosition(typed: string): Position {
  if (isUuid(typed)) return { sessionId: typed.toLowerCase() }
  return { eventId: typed === FIRST_EVENTS ? null : parseEventId(typed) }
}

export const userDataRoute = adminRoute(
  {
    operationId: 'getUserData',
    summary: 'Get everything that is stored about a user',
    description:
      'For a person that asks for it. Pages have sessions first, also ended ones, and then audit events; the rest is on every page. The hash of the password is left out.',
    query: {
      limit: countField('limit'),
      after: { description: '`next` of the previous page.', parse: parsePosition },
    },
    data: component(
      'UserData',
      whole({
        user: SHOWN_USER,
        lastLogin: LAST_LOGIN,
        devices: listOf(DEVICE_WITH_FAILURES),
        throttle: THROTTLE,
        sessions: listOf(STORED_SESSION),
        auditEvents: listOf(EVENT_OF_USER),
        next: NEXT,
      }),
    ),
    isLogged: true,
  },
  async (deps, { named, query: { limit = PAGE_MAX, after } }) => {
    const user = await userOf(deps, named)
    // With the first page the caller begins to read the rest.
    if (!after) await recordExport(deps, user)
    return {
      ...(await summarizeUser(deps, user)),
      ...(await readPage(deps, user, after ?? { sessionId: null }, limit)),
    }
  },
)

async function readPage(deps: RouteDeps, user: User, position: Position, limit: number) {
  if ('sessionId' in position) {
    const { items, next } = await listStoredSessions(deps, user, position.sessionId, limit)
    return { sessions: items, auditEvents: [], next: next ?? FIRST_EVENTS }
  }
  const { items, next } = await listEventsOf(deps, user, position.eventId, limit)
  return { sessions: [], auditEvents: items, next: next && String(next) }
}
