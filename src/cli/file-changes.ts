// Commands on the file of keys, with the clock and the audit. Both are in the database, but the file can be changed without
// it: after a leak, the keys must be rotated also while the database is down.
import type { Config } from '../config/config.ts'
import type { NewAuditEvent } from '../domain/audit.ts'
import { explainKeyFile } from '../keys/key-file.ts'
import { KeyFileError } from '../keys/key-set.ts'
import { Failure } from '../system/failures.ts'
import { type Context, configOf } from './context.ts'
import { commandActor } from './terminal.ts'
import { clockOf, withAnyStore } from './with-store.ts'

export async function withKeyFile(
  context: Context,
  command: (path: string, prepare: () => Promise<FileChange>) => Promise<void>,
): Promise<void> {
  const config = configOf(context)
  const { signingKeysFile: path } = config
  try {
    await command(path, () => prepareFileChange(context, config))
  } catch (error) {
    const isRefused = error instanceof Error && 'syscall' in error
    const isExplained = isRefused || error instanceof KeyFileError
    throw isExplained ? new Failure(`${explainKeyFile(path, error)}.`) : error
  }
}

type FileChange = Awaited<ReturnType<typeof prepareFileChange>>

async function prepareFileChange(context: Context, config: Config) {
  const { say } = context.terminal
  let isUsable = true

  /** Undefined, after a warning, if the database cannot be used. */
  async function attempt<T>(operation: Promise<T>, consequence: string): Promise<T | undefined> {
    try {
      return await operation
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      isUsable = false
      say(`Warning: ${error.message} ${consequence}`)
    }
  }

  const readClock = () => withAnyStore(config, ({ store }) => clockOf(store.maintenance, context))
  const clock =
    (config.database.engine === 'postgres' &&
      (await attempt(readClock(), 'This command uses the clock of this machine.'))) ||
    context.clock

  return {
    clock,
    /** Called after the change. If the database does not answer, only the log has the change, and a warning says so. */
    async record(events: NewAuditEvent[]): Promise<void> {
      const missing = 'The audit does not have this change; the log has it.'
      if (!isUsable) return say(`Warning: ${missing}`)
      const recording = withAnyStore(config, async ({ store }) => {
        const migrations = await store.migrations.list()
        // A database that is not set up yet has no audit either.
        if (migrations.every(({ appliedAt }) => appliedAt === null)) return
        await store.audit.record({ at: clock(), by: commandActor() }, events)
      })
      await attempt(recording, missing)
    },
  }
}
