// The file or standard input that users are imported from.
import { type FileHandle, open } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { messageOf } from '../../files.ts'
import { Failure } from '../failures.ts'

const CHUNK_BYTES = 65_536

export type Source = {
  /** Names the source in messages. */
  name: string
  /** Null if it cannot be told, as for a pipe. */
  totalBytes: number | null
  chunks: (signal: AbortSignal) => AsyncGenerator<Buffer>
  /** True if the file is no longer what it was when it was opened. */
  hasChanged: () => Promise<boolean>
  close: () => Promise<void>
}

export async function openFile(path: string): Promise<Source> {
  const handle = await readable(path, open(path))
  const { isFile, size, mtimeMs } = await stateOf(handle)
  const start = { size, mtimeMs }
  return {
    name: path,
    totalBytes: isFile ? size : null,
    chunks: signal =>
      chunksOf(
        path,
        handle.createReadStream({ highWaterMark: CHUNK_BYTES, autoClose: false }),
        signal,
      ),
    async hasChanged() {
      const now = await stateOf(handle)
      return isFile && (now.size !== start.size || now.mtimeMs !== start.mtimeMs)
    },
    close: () => handle.close(),
  }
}

export function standardInput(stdin: Readable): Source {
  const name = 'standard input'
  return {
    name,
    totalBytes: null,
    chunks: signal => chunksOf(name, stdin, signal),
    hasChanged: async () => false,
    close: async () => {},
  }
}

async function* chunksOf(name: string, stream: Readable, signal: AbortSignal) {
  try {
    for await (const chunk of addAbortSignal(signal, stream)) yield chunk as Buffer
  } catch (error) {
    throw signal.aborted ? new Failure('Interrupted.') : unreadable(name, error)
  }
}

async function stateOf(handle: FileHandle) {
  const stats = await handle.stat()
  return { isFile: stats.isFile(), size: stats.size, mtimeMs: stats.mtimeMs }
}

function readable<T>(name: string, operation: Promise<T>): Promise<T> {
  return operation.catch(error => {
    throw unreadable(name, error)
  })
}

function unreadable(name: string, error: unknown): Failure {
  return new Failure(`${name} cannot be read: ${messageOf(error)}.`)
}
