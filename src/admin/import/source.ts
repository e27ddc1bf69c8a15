// The text of the file, or of standard input, from which users are imported.
import { createReadStream } from 'node:fs'
import { addAbortSignal, type Readable } from 'node:stream'
import { Failure } from '../../system/failures.ts'
import { messageOf } from '../../system/files.ts'

/** The file is read as a whole, and the longest text of V8 has twice as many characters. */
const MAX_MIB = 256
const MAX_BYTES = MAX_MIB * 1024 * 1024

/** As TextDecoder calls them. Windows-1252 is what programs for Windows mean by Latin-1. */
const DECODERS = { utf8: 'utf-8', latin1: 'windows-1252', utf16le: 'utf-16le' } as const
export type TextEncoding = keyof typeof DECODERS
export const ENCODINGS: string[] = Object.keys(DECODERS)

/** `damage` says what is wrong with a record that has U+FFFD; null if all bytes are text. */
export type Source = { text: string; encoding: TextEncoding; damage: string | null }

/** `input` is the path of a file, or standard input. */
export async function readSource(
  name: string,
  input: string | Readable,
  given: TextEncoding | undefined,
  signal: AbortSignal,
): Promise<Source> {
  try {
    // Memory that is not written to is not taken. Many small buffers would stay with the process.
    const bytes = Buffer.allocUnsafeSlow(MAX_BYTES)
    let size = 0
    const stream = typeof input === 'string' ? createReadStream(input) : input
    for await (const chunk of addAbortSignal(signal, stream)) {
      if (size + chunk.length > MAX_BYTES) {
        throw new Failure(
          `${name} has more than ${MAX_MIB} MiB: import it in parts. A part of CSV begins with the heading.`,
        )
      }
      size += chunk.copy(bytes, size)
    }
    return decode(bytes.subarray(0, size), given)
  } catch (error) {
    if (error instanceof Failure) throw error
    if (signal.aborted) throw new Failure('Interrupted.')
    throw new Failure(`${name} cannot be read: ${messageOf(error)}.`)
  }
}

function decode(bytes: Buffer, given: TextEncoding | undefined): Source {
  const encoding = given ?? (bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf16le' : 'utf8')
  const decoded = (fatal: boolean) => new TextDecoder(DECODERS[encoding], { fatal }).decode(bytes)
  try {
    return { text: decoded(true), encoding, damage: null }
  } catch {
    const damage =
      encoding === 'utf8'
        ? 'it is not valid UTF-8: if the file comes from Excel, add --encoding latin1'
        : 'it is not valid UTF-16: the file may have been cut off'
    return { text: decoded(false), encoding, damage }
  }
}
