// GET /admin/v1/audit: what administrators have changed, the last change first.
import { startParser } from '../../../admin/input/times.ts'
import { eventIdParser, targetParser } from '../../../admin/input/values.ts'
import { named, whole } from '../../openapi/operation.ts'
import { adminRoute } from '../route.ts'
import { AUDIT_EVENT, countField, listOf, NEXT, PAGE_MAX } from '../schemas.ts'

export const auditRoute = adminRoute(
  {
    operationId: 'listAudit',
    summary: 'List what administrators have changed',
    description:
      'The event that was recorded last comes first. A page may have fewer events than `limit` before the end. That a token reads them is an event too, once in an hour per address.',
    query: {
      target: {
        description: 'An email: its user’s events, also under other emails. Or another target.',
        parse: targetParser('target'),
      },
      since: {
        description:
          'A time, in UTC if it has no zone, or a duration until now such as `90m`, `2h` or `30d`.',
        examples: ['30d'],
        parse: startParser('since'),
      },
      limit: countField('limit'),
      before: {
        description: '`next` of the previous page.',
        parse: eventIdParser('before'),
      },
    },
    data: named(
      'AuditPage',
      whole({
        events: listOf(AUDIT_EVENT),
        next: {
          ...NEXT,
          type: ['integer', 'null'],
          description: NEXT.description.replace('after', 'before'),
        },
      }),
    ),
  },
  async (deps, { query: { target = null, since, limit = PAGE_MAX, before: beforeId = null } }) => {
    await deps.recordRead(deps)
    const page = { since: since?.(deps.clock()) ?? null, beforeId, limit }
    return deps.store.audit.list(target, page)
  },
)
