// Every command that writes keys, tokens, certificates, passwords or exports, with every fault of every operation on
// files: a reader finds the old file or the new one, nothing that is secret is left beside it, and no file stays open.
import { statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Ended, judgeCommands, setUpCommands } from './commands.ts'
import { fileCommands } from './file-commands.ts'
import { findLeftOpen, INJECTED, injectIntoFiles } from './file-faults.ts'
import { type Judge, proveAll } from './loop.ts'

/** A new file beside the one that is replaced, and the same for rejected rows. */
const TEMPORARY = /\.tmp$/

test('every command that writes files, with every fault of files', async t => {
  const commands = await setUpCommands('sqlite', injectIntoFiles)
  const { faults, database } = commands
  const shared = judgeCommands(database)
  const judge: Judge<Ended> = {
    ...shared,
    findWrongFailure(ended) {
      const isTold = String(ended.error).includes(INJECTED)
      return shared.findWrongFailure(ended) ?? (isTold ? null : `${ended.error} hides the fault`)
    },
    async findProblems(prepared, met) {
      const { folder = '' } = prepared
      const names = (await readdir(folder)).filter(name => TEMPORARY.test(name))
      const left = names.filter(name => statSync(join(folder, name)).size > 0)
      // What cannot be removed stays.
      const isExpected = met.hits.some(name => name === 'unlink' || name === 'rm')
      return [
        ...(left.length > 0 && !isExpected ? [`left behind: ${left}`] : []),
        ...(await findLeftOpen()),
        ...(await shared.findProblems(prepared, met)),
      ]
    },
  }
  await proveAll(t, 'commands, operations on files', fileCommands(commands), {
    ...{ faults, judge, engine: 'sqlite', clear: database.clear },
    unit: 'file',
  })
})
