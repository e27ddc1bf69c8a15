// database migrate|status
import { Command } from 'commander'
import { type Context, configOf, type JsonOption } from './context.ts'
import { fieldsOf, jsonOf, toTime } from './layout.ts'
import { withAnyStore, withMigratedStore } from './with-store.ts'

export function databaseCommand(context: Context): Command {
  const { terminal } = context
  const database = new Command('database').description('look after the database')

  database
    .command('migrate')
    .description('bring the tables up to date (the service does so at its start)')
    .option('--json', 'print what was applied as JSON')
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
        const migrations = await store.listMigrations()
        const isCurrent = migrations.every(({ appliedAt }) => appliedAt !== null)
        const users = isCurrent ? await store.countUsers() : null
        if (json) return terminal.print(jsonOf({ database: where, migrations, users }))
        const states = migrations.map(({ name, appliedAt }) => [
          name,
          appliedAt ? `applied ${toTime(appliedAt)}` : 'pending: run "database migrate"',
        ])
        return terminal.print(
          fieldsOf({
            database: where,
            ...Object.fromEntries(states),
            ...(users === null ? {} : { users: String(users) }),
          }),
        )
      }),
    )

  return database
}
