// Every command that writes, with every fault of every statement: it ends with a message, and stores all or nothing.
import { rm } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import type { Store } from '../../src/domain/store.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { createMigratedDatabase, openPatientStore, type TestDatabase } from '../engines.ts'
import { makeTemporaryFolder } from '../temporary-folder.ts'
import { type Commands, createCommands, judgeCommands } from './commands.ts'
import { databaseCommands } from './database-commands.ts'
import { createFaults, injectIntoDrivers } from './faults.ts'
import { proveAll } from './loop.ts'

export function proveCommands(engine: EngineName): void {
  describe(`faults of commands on ${engine}`, () => {
    const faults = createFaults()
    let database: TestDatabase
    let store: Store
    let commands: Commands
    let restore: () => void
    before(async () => {
      const folder = await makeTemporaryFolder('login-commands-')
      database = await createMigratedDatabase(engine)
      store = await openPatientStore(database.config)
      commands = createCommands(database, folder)
      restore = injectIntoDrivers(faults)
    })
    after(async () => {
      restore()
      await store.close()
      await database.drop()
      await rm(commands.folder, { recursive: true })
    })

    test('every statement of every command', context =>
      proveAll(
        context,
        `commands on ${engine}, statements`,
        databaseCommands(commands, store),
        faults,
        judgeCommands(database),
        'statement',
      ))
  })
}
