// GET /admin/v1/audit: what administrators have changed, the last change first.
import { WrongUse } from '../../../admin/failures.ts'
import { parseText } from '../../../admin/terminal/arguments.ts'
import { parseTime } from '../../../admin/terminal/times.ts'
import { canonicalEmail } from '../../../login/credentials.ts'
import { read, readLimit } from '../input.ts'
import type { Handler } from '../route.ts'

const parseTarget = parseText('target', 254)

export const auditRoute: Handler = async (deps, _request, query) => {
  const limit = readLimit(query)
  const target = read(query, 'target', typed => canonicalEmail(parseTarget(typed))) ?? null
  const since = read(query, 'since', parseTime('since')) ?? null
  const beforeId = read(query, 'before', parseEventId) ?? null
  return { data: await deps.store.audit.list(target, { since, beforeId, limit }) }
}

function parseEventId(typed: string): number {
  if (/^[1-9]\d{0,14}$/.test(typed)) return Number(typed)
  throw new WrongUse('before takes the id of an event.')
}
