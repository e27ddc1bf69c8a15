// audit list
import { Command } from 'commander'
import type { AuditEvent, AuditFacts } from '../domain/audit.ts'
import { canonicalEmail } from '../login/credentials.ts'
import { type Context, type JsonOption, printList } from './context.ts'
import { allEvents } from './operations/audit.ts'
import { parseCount } from './terminal/arguments.ts'
import { count, formatTime } from './terminal/layout.ts'
import { type Moment, parseStart } from './terminal/times.ts'
import { withStore } from './with-store.ts'

type Options = JsonOption & { target?: string; since?: Moment; limit?: number }

export function auditCommand(context: Context): Command {
  const audit = new Command('audit').description('show what administrators have changed')

  audit
    .command('list')
    .description('list the changes by administrators, newest first')
    .option(
      '--target <email>',
      'only changes of this user, also under other emails (or of a session, device or client)',
      canonicalEmail,
    )
    .option(
      '--since <time>',
      'only changes since a time, such as 2030-01-31T12:00 (UTC), or in the last 90m, 2h or 30d',
      parseStart('--since'),
    )
    .option('--limit <n>', 'at most this many', parseCount('--limit'))
    .option('--json', 'print JSON')
    .action((options: Options) =>
      withStore(context, async ({ admin, clock }) => {
        const { target = null, limit = Number.MAX_SAFE_INTEGER } = options
        const since = options.since?.(clock()) ?? null
        const events = allEvents(admin, target, { since, limit })
        const listed = await printList(context, events, options, toRow)
        if (options.json || (listed > 0 && !since)) return
        const found =
          listed > 0 ? `Listed ${count(listed, 'change', 'changes')}` : 'No change is recorded'
        context.terminal.say(since ? `${found} since ${formatTime(since)}.` : `${found}.`)
      }),
    )

  return audit
}

function toRow({ at, by, action, target, before, after }: AuditEvent) {
  return {
    time: formatTime(at),
    action,
    target,
    change: describe(before, after),
    by: `${by.kind === 'token' ? 'token ' : ''}${by.name}@${by.host}`,
  }
}

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
