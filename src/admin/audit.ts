// audit list|accept
import { Command } from 'commander'
import type { AuditEvent, AuditFacts } from '../domain/audit.ts'
import { type Context, type JsonOption, printList } from './context.ts'
import { Failure } from './failures.ts'
import { findUnexplained } from './file-events.ts'
import { type Moment, startParser } from './input/times.ts'
import { countParser, targetParser } from './input/values.ts'
import { changeNow } from './operations/deps.ts'
import { pagesOf } from './operations/pages.ts'
import { count, timeText } from './terminal/layout.ts'
import { withStore } from './with-store.ts'

type Options = JsonOption & { target?: string; since?: Moment; limit?: number }

export function auditCommand(context: Context): Command {
  const audit = new Command('audit').description(
    'show and complete what administrators have changed',
  )

  audit
    .command('list')
    .description('list the changes by administrators, newest first')
    .option(
      '--target <email>',
      'only changes of this user, also under other emails (or of a session, device, client, key or token)',
      targetParser('--target'),
    )
    .option(
      '--since <time>',
      'only changes since a time, such as 2030-01-31T12:00 (UTC), or in the last 90m, 2h or 30d',
      startParser('--since'),
    )
    .option('--limit <n>', 'at most this many', countParser('--limit'))
    .option('--json', 'print JSON')
    .action((options: Options) =>
      withStore(context, async ({ admin }) => {
        const since = options.since?.(admin.clock()) ?? null
        const pages = pagesOf(async (beforeId: number | null, limit) => {
          const page = { since, beforeId, limit }
          const { events, next } = await admin.store.audit.list(options.target ?? null, page)
          return { items: events, next }
        }, options.limit)
        const listed = await printList(context, pages, options, toRow)
        if (options.json || (listed > 0 && !since)) return
        const found =
          listed > 0 ? `Listed ${count(listed, 'change', 'changes')}` : 'No change is recorded'
        context.terminal.say(since ? `${found} since ${timeText(since)}.` : `${found}.`)
      }),
    )

  audit
    .command('accept')
    .description(
      'record a signing key or admin token that "doctor" reports, because you know where it is from',
    )
    .requiredOption('--target <id>', 'id of the key, or name of the token')
    .action(({ target }: { target: string }) =>
      withStore(context, async ({ admin, config }) => {
        // Reading keys takes a library that the list does not need.
        const { findFileEvents } = await import('./found-files.ts')
        const found = await findUnexplained(admin.store.audit, await findFileEvents(config))
        const accepted = found.filter(event => event.target === target)
        const [event] = accepted
        if (!event) {
          throw new Failure(
            'No signing key or admin token with this name needs an explanation: run "doctor".',
          )
        }
        await admin.store.audit.record(changeNow(admin), accepted)
        const what = event.action === 'key.found' ? 'signing key' : 'admin token'
        context.terminal.announce(
          'admin.file_accepted',
          { target },
          `Accepted the ${what} ${target}: it is now in the audit.`,
        )
      }),
    )

  return audit
}

function toRow({ at, by, action, target, before, after }: AuditEvent) {
  return {
    time: timeText(at),
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
