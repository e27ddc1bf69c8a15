// database migrate|status|purge
import { Command } from 'commander'
import { fieldLines, jsonOf, timeText } from '../admin/layout.ts'
import { changeNow } from '../admin/operations/deps.ts'
import { addRemoved, NONE_REMOVED } from '../domain/maintenance.ts'
import { Failure } from '../system/failures.ts'
import { type Context, configOf, type JsonOption } from './context.ts'
import { withAnyStore, withMigratedStore, withStore } from './with-store.ts'

export function databaseCommand(context: Context): Command {
  const { terminal } = context
  const database = new Command('database').description('set up, inspect and purge the database')

  database
    .command('migrate')
    .description('create or update the tables (the service also does this when it starts)')
    .option('--json', 'print the applied migrations as JSON')
    .action(({ json }: JsonOption) =>
      withMigratedStore(context, async ({ where, applied }) => {
        if (applied.length === 0) terminal.say('The database is up to date.')
        else {
          const sentence = `Applied ${applied.join(', ')}.`
          terminal.announce('admin.database_migrated', { applied }, sentence)
        }
        if (json) await terminal.print(jsonOf({ database: where, applied }))
      }),
    )

  database
    .command('status')
    .description('show which database is used and whether its tables are up to date')
    .option('--json', 'print JSON')
    .action(({ json }: JsonOption) =>
      withAnyStore(configOf(context), async ({ store, where }) => {
        const migrations = await store.migrations.list()
        const isCurrent = migrations.every(({ appliedAt }) => appliedAt !== null)
        const users = isCurrent ? await store.users.count() : null
        if (json) return terminal.print(jsonOf({ database: where, migrations, users }))
        const states = migrations.map(({ name, appliedAt }) => [
          name,
          appliedAt ? `applied ${timeText(appliedAt)}` : 'pending: run "database migrate"',
        ])
        const counted = users === null ? {} : { users: String(users) }
        const fields = { database: where, ...Object.fromEntries(states), ...counted }
        return terminal.print(fieldLines(fields))
      }),
    )

  database
    .command('purge')
    .description('remove expired rows (the service also does this once a minute)')
    .option('--json', 'print how many rows were removed as JSON')
    .action(({ json }: JsonOption) =>
      withStore(context, async ({ store, config: { auditDays }, admin }) => {
        const removed = { ...NONE_REMOVED }
        for (;;) {
          const batch = await store.maintenance.purge(admin.clock(), auditDays)
          if (batch === null)
            throw new Failure('A service is purging this database now: there is nothing to do.')
          addRemoved(removed, batch)
          if (batch.isDone) break
          terminal.progress(`Removed ${removed.sessions} sessions so far …`)
        }
        const sentence = `Removed ${removed.sessions} sessions, ${removed.refreshTokens} refresh tokens, ${removed.codes} codes, ${removed.devices} devices, ${removed.throttleRows} throttle rows and ${removed.auditEvents} audit events.`
        if (Object.values(removed).some(Boolean)) {
          const event = { action: 'database.purged', target: 'database', targetId: null } as const
          await store.audit.record(changeNow(admin), [{ ...event, after: removed }])
        }
        terminal.announce('admin.database_purged', removed, sentence)
        if (json) await terminal.print(jsonOf(removed))
      }),
    )

  return database
}
