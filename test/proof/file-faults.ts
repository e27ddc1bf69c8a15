// Makes the k-th operation on files of a command fail, as a full or broken disk does.

import fs, { type FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import type { Faults } from './faults.ts'

/** The operations that change files, or finish a change. */
const FUNCTIONS = [
  'open',
  'mkdir',
  'rename',
  'link',
  'unlink',
  'rm',
  'chmod',
  'lchown',
  'stat',
] as const
const METHODS = ['writeFile', 'appendFile', 'readFile', 'truncate', 'sync'] as const

/** In turn, so that both are met. */
const CODES = ['EIO', 'ENOSPC']

type Operation = (...values: unknown[]) => Promise<unknown>

/** Lets all operations on files in this process meet the faults. Returns what undoes it. */
export async function injectIntoFiles({ next }: Faults): Promise<() => void> {
  let failures = 0
  const failing = (name: string, operation: Operation): Operation =>
    async function (this: unknown, ...values) {
      const kind = next('file', name)
      const code = CODES[failures % CODES.length]
      const error = Object.assign(new Error(`${code}: the injected fault, ${name}`), {
        code,
        syscall: name,
      })
      if (kind) failures++
      // A descriptor is closed even if that reports an error.
      if (kind === 'error' && name !== 'close') throw error
      const result = await operation.apply(this, values)
      // Unlike its other methods, this one belongs to each handle.
      if (name === 'open' && kind === null) replace(Object(result), 'close')
      if (kind === null) return result
      // A file that was opened is closed again: its number is lost with the answer.
      if (name === 'open') await (result as FileHandle).close()
      throw error
    }
  const handle = await fs.open(import.meta.filename)
  await handle.close()
  const prototype = Object.getPrototypeOf(handle)
  const replace = (object: object, name: string) => {
    const operation: Operation = Reflect.get(object, name)
    Reflect.set(object, name, failing(name, operation))
    return () => Reflect.set(object, name, operation)
  }
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
