// Every command that writes, with every fault of every statement: it ends with a message, and stores all or nothing.
import { test } from 'node:test'
import type { EngineName } from '../../../src/storage/sql/engine.ts'
import { judgeCommands, setUpCommands } from './commands.ts'
import { databaseCommands } from './database-commands.ts'
import { injectIntoDrivers } from './faults.ts'
import { proveAll } from './loop.ts'

export function proveCommands(engine: EngineName): void {
  test(`every statement of every command on ${engine}`, async t => {
    const { faults, database, store, commands } = await setUpCommands(t, engine, injectIntoDrivers)
    await proveAll(t, `commands on ${engine}, statements`, databaseCommands(commands, store), {
      faults,
      judge: judgeCommands(database),
      unit: 'statement',
      engine,
      clear: database.clear,
    })
  })
}
