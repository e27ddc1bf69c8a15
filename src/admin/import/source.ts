// The file or standard input that users are imported from.
import { open } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { messageOf } from '../../files.ts'
import { Failure } from '../failures.ts'

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
  const handle = await open(path).catch(error => {
    throw unreadable(path, error)
  })
  const opened = await handle.stat().catch(async error => {
    await handle.close()
    throw unreadable(path, error)
  })
  return {
    name: path,
    totalBytes: opened.isFile() ? opened.size : null,
    chunks: signal => chunksOf(path, handle.createReadStream({ autoClose: false }), signal),
    async hasChanged() {
      const now = await handle.stat()
      return now.isFile() && (now.size !== opened.size || now.mtimeMs !== opened.mtimeMs)
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

function unreadable(name: string, error: unknown): Failure {
  return new Failure(`${name} cannot be read: ${messageOf(error)}.`)
}
