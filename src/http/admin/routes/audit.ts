// GET /admin/v1/audit: what administrators have changed, newest first.
import { WrongUse } from '../../../admin/failures.ts'
import { listAudit } from '../../../admin/operations/audit.ts'
import { parseText } from '../../../admin/terminal/arguments.ts'
import { parseTime } from '../../../admin/terminal/times.ts'
import type { AuditEvent } from '../../../domain/audit.ts'
import { canonicalEmail } from '../../../login/credentials.ts'
import { read, readLimit } from '../input.ts'
import type { Handler } from '../route.ts'

const parseTarget = parseText('target', 254)

export const auditRoute: Handler = async (deps, _request, query) => {
  const limit = readLimit(query)
  const target = read(query, 'target', typed => canonicalEmail(parseTarget(typed))) ?? null
  const since = read(query, 'since', parseTime('since')) ?? null
  const beforeId = read(query, 'before', parseEventId) ?? null
  const events: AuditEvent[] = []
  for await (const batch of listAudit(deps, { target, since, beforeId, limit })) {
    events.push(...batch)
  }
  const next = events.length < limit ? null : (events.at(-1)?.id ?? null)
  return { data: { events, next } }
}

function parseEventId(typed: string): number {
  if (/^[1-9]\d{0,14}$/.test(typed)) return Number(typed)
  throw new WrongUse('before takes the id of an event.')
}
