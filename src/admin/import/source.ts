// The text of the file, or of standard input, from which users are imported.
import { readFile } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { Failure } from '../../failures.ts'
import { messageOf } from '../../files.ts'

/** As TextDecoder calls them. Windows-1252 is what programs for Windows mean by Latin-1. */
const DECODERS = { utf8: 'utf-8', latin1: 'windows-1252', utf16le: 'utf-16le' } as const
export type TextEncoding = keyof typeof DECODERS
export const ENCODINGS: string[] = Object.keys(DECODERS)

/** `input` is the path of a file, or standard input. It is read as a whole, because its rows are sorted. */
export async function readSource(
  input: string | Readable,
  given: TextEncoding | undefined,
  signal: AbortSignal,
): Promise<{ text: string; encoding: TextEncoding }> {
  try {
    const bytes = await (typeof input === 'string'
      ? readFile(input, { signal })
      : buffer(addAbortSignal(signal, input)))
    const encoding = given ?? (bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf16le' : 'utf8')
    return { text: new TextDecoder(DECODERS[encoding]).decode(bytes), encoding }
  } catch (error) {
    if (signal.aborted) throw new Failure('Interrupted.')
    const name = typeof input === 'string' ? input : 'standard input'
    throw new Failure(`${name} cannot be read: ${messageOf(error)}.`)
  }
}
