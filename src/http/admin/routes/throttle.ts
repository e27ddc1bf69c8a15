// /admin/v1/throttle: failed logins and the waits after them.
import { WrongUse } from '../../../admin/failures.ts'
import { parseEmail } from '../../../admin/input/values.ts'
import {
  clearClient,
  clearEmail,
  listThrottle,
  showThrottle,
} from '../../../admin/operations/throttle.ts'
import { named, whole } from '../../openapi/operation.ts'
import { adminRoute } from '../route.ts'
import { CLIENT_FIELD, countField, THROTTLE, THROTTLE_LIST } from '../schemas.ts'

const DEFAULT_TOP = 20

const NAMES = {
  email: {
    description: 'An email, with or without a user.',
    examples: ['kate@example.com'],
    parse: parseEmail,
  },
  client: CLIENT_FIELD,
}

export const throttleRoute = adminRoute(
  {
    operationId: 'getThrottle',
    summary: 'Get failures and waits',
    description:
      'Of an email, a client or both; otherwise the users that wait, and the clients with the most failures.',
    query: { top: countField('top', DEFAULT_TOP), ...NAMES },
    data: named('FoundThrottle', { anyOf: [THROTTLE_LIST, THROTTLE] }),
  },
  async (deps, { query: { top, email = null, client = null } }) => {
    if (email === null && client === null) {
      return deps.oneAtATime(() => listThrottle(deps, top ?? DEFAULT_TOP))
    }
    if (top === undefined) return showThrottle(deps, { email, client })
    throw new WrongUse('top cannot be combined with email or client.', 'top')
  },
)

export const clearThrottleRoute = adminRoute(
  {
    operationId: 'clearThrottle',
    summary: 'Clear failures and blocks',
    description: 'Send either `email` or `client`.',
    query: NAMES,
    data: named(
      'ClearedThrottle',
      whole({
        cleared: {
          type: 'boolean',
          description: 'False if there was nothing to clear.',
          examples: [true],
        },
      }),
    ),
  },
  async (deps, { query: { email, client } }) => {
    if (email && !client) return { cleared: await clearEmail(deps, email) }
    if (client && !email) return { cleared: await clearClient(deps, client) }
    throw new WrongUse('Send either email or client.', 'email')
  },
)
