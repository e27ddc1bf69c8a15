// What administrators have changed, the last change first.
import type { AuditEvent, AuditFacts } from '../../domain/audit.ts'
import { AUDIT_EVENT } from '../api/schemas.ts'
import { startParser } from '../input/times.ts'
import { eventIdParser, targetParser } from '../input/values.ts'
import { timeText } from '../layout.ts'
import { listOperation } from '../operation.ts'

export const listAudit = listOperation(
  {
    command: 'audit list',
    request: 'GET /audit',
    summary: 'List what administrators have changed',
    description: 'The event that was recorded last comes first.',
    forCallers: 'A page may have fewer events than `limit` before the end.',
    examples: ['--since 30d', '--target ann@example.org --limit 20'],
    for: 'helpdesk',
    fields: {
      target: {
        about:
          'An email: its user’s events, also under other emails. Or a session, client, key or token.',
        parse: targetParser,
        input: { label: 'Whole email, address or token' },
      },
      since: {
        about:
          'A time, in UTC if it has no zone, or a duration until now such as `90m`, `2h` or `30d`.',
        examples: ['30d'],
        parse: startParser,
        input: {
          choices: {
            ...{ '': 'Any time', '24h': '1 day ago', '7d': '7 days ago' },
            ...{ '30d': '30 days ago', '365d': '1 year ago' },
          },
        },
      },
    },
  },
  {
    items: 'events',
    schema: AUDIT_EVENT,
    positionName: 'before',
    parsePosition: eventIdParser,
    async read({ store, clock }, { target = null, since }, { from, limit }) {
      const page = { since: since?.(clock()) ?? null, beforeId: from, limit }
      const { events, next } = await store.audit.list(target, page)
      return { items: events, next }
    },
    toRow: ({ at, by, action, target, before, after }: AuditEvent) => ({
      time: timeText(at),
      action,
      target,
      change: describe(before, after),
      // A person is named by its email.
      by: `${by.kind === 'token' ? 'token ' : ''}${by.name}${by.kind === 'person' ? ' at ' : '@'}${by.host}`,
    }),
    say: (_, listed) => (listed === 0 ? 'No change is recorded.' : null),
  },
)

/** Such as `role user → admin`; fields that one side lacks are shown alone. */
function describe(before: AuditFacts | null, after: AuditFacts | null): string {
  const names = Object.keys({ ...before, ...after })
  const show = (facts: AuditFacts | null, name: string) => String(facts?.[name] ?? 'none')
  return names
    .map(name => {
      if (before && after) return `${name} ${show(before, name)} → ${show(after, name)}`
      return `${name} ${show(before ?? after, name)}`
    })
    .join(', ')
}
