// database migrate|status
import { Command } from 'commander'
import { describeDatabase } from '../storage/open-store.ts'
import { type Context, withStore } from './context.ts'

export function databaseCommand(context: Context): Command {
  const database = new Command('database').description('look after the database')

  database
    .command('migrate')
    .description('bring the tables up to date (the service does so at its start)')
    .action(() =>
      withStore(
        context,
        async store => {
          const applied = await store.migrate()
          if (applied.length === 0) return context.terminal.say('The database is up to date.')
          context.terminal.announce(
            'admin.database_migrated',
            { applied },
            `Applied ${applied.join(', ')}.`,
          )
        },
        { migrate: false },
      ),
    )

  database
    .command('status')
    .description('show which database is used and whether its tables are up to date')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: boolean }) =>
      withStore(
        context,
        async (store, config) => {
          const migrations = await store.listMigrations()
          const pending = migrations.filter(migration => migration.appliedAt === null).length
          const users = pending === 0 ? await store.countUsers() : null
          const location = describeDatabase(config.database)
          if (json) return context.terminal.printJson({ database: location, migrations, users })
          context.terminal.printFields({
            database: location,
            ...Object.fromEntries(
              migrations.map(({ name, appliedAt }) => [
                name,
                appliedAt
                  ? `applied ${appliedAt.toISOString()}`
                  : 'pending: run "database migrate"',
              ]),
            ),
            ...(users === null ? {} : { users: String(users) }),
          })
        },
        { migrate: false },
      ),
    )

  return database
}
