// /admin/v1/throttle: failed logins and the waits after them.
import {
  clearClient,
  clearEmail,
  listThrottle,
  showThrottle,
} from '../../../admin/operations/throttle.ts'
import { parseClient, parseEmail } from '../../../admin/terminal/arguments.ts'
import { InvalidInput, read, readLimit, type Values } from '../input.ts'
import type { Handler } from '../route.ts'

const DEFAULT_TOP = 20

function namedIn(query: Values) {
  const email = read(query, 'email', parseEmail) ?? null
  const client = read(query, 'client', parseClient('client')) ?? null
  return { email, client }
}

/** Of an email, a client or both; otherwise those with the most failures. */
export const throttleRoute: Handler = async (deps, _request, query) => {
  const named = namedIn(query)
  if (named.email === null && named.client === null) {
    const top = readLimit(query, 'top', DEFAULT_TOP)
    return { data: await deps.oneAtATime(() => listThrottle(deps, top)) }
  }
  if (query.top !== undefined) {
    throw new InvalidInput('top cannot be combined with email or client.', 'top')
  }
  return { data: await showThrottle(deps, named) }
}

export const clearThrottleRoute: Handler = async (deps, _request, query) => {
  const { email, client } = namedIn(query)
  if (email !== null && client === null) return { data: { cleared: await clearEmail(deps, email) } }
  if (client !== null && email === null) {
    return { data: { cleared: await clearClient(deps, client) } }
  }
  throw new InvalidInput('Send either email or client.', 'email')
}
