// Every command that writes keys, tokens, certificates, passwords or exports, with every fault of every operation on
// files, as of a full or broken disk: a reader finds the old file or the new one, nothing that is secret is left beside
// it, and no file stays open.
import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import fs, { type FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Ended, judgeCommands, setUpCommands } from './commands.ts'
import { type Faults, replaceMethod } from './faults.ts'
import { fileCommands } from './file-commands.ts'
import { type Judge, proveAll } from './loop.ts'

/** The operations of which a change of a file consists. */
const FUNCTIONS = [
  ...['open', 'mkdir', 'rename', 'link', 'unlink', 'rm', 'chmod', 'lchown', 'stat', 'readFile'],
] as const
const METHODS = ['writeFile', 'appendFile', 'readFile', 'truncate', 'sync', 'stat'] as const

/** What the message of every fault has. */
const INJECTED = 'the injected fault'
/** In turn, so that both are met. */
const CODES = ['EIO', 'ENOSPC']

/** A new file beside the one that is replaced, and the same for rejected rows. */
const TEMPORARY = /\.tmp$/

type Operation = (...values: unknown[]) => Promise<unknown>

const opened = new Set<FileHandle>()

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
      const names = (await fs.readdir(folder)).filter(name => TEMPORARY.test(name))
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

test('every command that writes files syncs their names before it ends', async () => {
  const commands = await setUpCommands('sqlite')
  const handle = await fs.open(commands.folder)
  await handle.close()
  const prototype = Object.getPrototypeOf(handle)
  for (const [title, prepare] of Object.entries(fileCommands(commands))) {
    const { folder = '', run } = await prepare()
    const before = await fs.readdir(folder)
    let synced: string[] = []
    const sync = prototype.sync
    const undo = replaceMethod(prototype, 'sync', async function (this: FileHandle) {
      if ((await this.stat()).isDirectory()) synced = await fs.readdir(folder)
      return sync.call(this)
    })
    await run().finally(undo)
    const made = (await fs.readdir(folder)).filter(name => !before.includes(name))
    assert.ok(made.length > 0)
    // The locks have no content.
    const unsynced = made.filter(name => !synced.includes(name) && !name.endsWith('.lock'))
    assert.deepEqual(unsynced, [], title)
  }
})

/** Closes the files that were left open, and says how many. */
async function findLeftOpen(): Promise<string[]> {
  const left = [...opened].filter(({ fd }) => fd !== -1)
  opened.clear()
  await Promise.all(left.map(handle => handle.close()))
  return left.length > 0 ? [`${left.length} files are still open`] : []
}

/** Lets all operations on files in this process meet the faults. Returns what undoes it. */
async function injectIntoFiles({ next }: Faults): Promise<() => void> {
  let failures = 0
  const failing = (name: string, operation: Operation): Operation =>
    async function (this: unknown, ...values) {
      // Node reads a module by its URL.
      const kind = values[0] instanceof URL ? null : next('file', name)
      const code = CODES[failures % CODES.length]
      const error = Object.assign(new Error(`${code}: ${INJECTED}, ${name}`), {
        code,
        syscall: name,
      })
      if (kind) failures++
      // A descriptor is closed even if that reports an error.
      if (kind === 'error' && name !== 'close') throw error
      const result = await operation.apply(this, values)
      if (name === 'open') {
        opened.add(result as FileHandle)
        // Unlike its other methods, this one belongs to each handle.
        if (kind === null) replace(Object(result), 'close')
        // Its number is lost with the answer.
        else await (result as FileHandle).close()
      }
      if (kind === null) return result
      throw error
    }
  const handle = await fs.open(import.meta.filename)
  await handle.close()
  const prototype = Object.getPrototypeOf(handle)
  const replace = (object: object, name: string) =>
    replaceMethod(object, name, failing(name, Reflect.get(object, name)))
  const undo = [
    ...METHODS.map(name => replace(prototype, name)),
    ...FUNCTIONS.map(name => replace(fs, name)),
  ]
  syncBuiltinESMExports()
  return () => {
    for (const each of undo) each()
    syncBuiltinESMExports()
  }
}
