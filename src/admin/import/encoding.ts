// The encoding of a file: what is read from here on is UTF-8 without a byte order mark.
import { TextDecoder } from 'node:util'

/** As TextDecoder calls them. Windows-1252 is what programs for Windows mean by Latin-1. */
const DECODERS = { utf8: null, latin1: 'windows-1252', utf16le: 'utf-16le' } as const
const MARKS: [encoding: TextEncoding, mark: Buffer][] = [
  ['utf8', Buffer.from('\ufeff')],
  ['utf16le', Buffer.from('\ufeff', 'utf16le')],
]

export type TextEncoding = keyof typeof DECODERS
export const ENCODINGS: string[] = Object.keys(DECODERS)

/** A byte order mark decides, unless the encoding was given. */
export async function* toUtf8(
  chunks: AsyncIterable<Buffer>,
  given: TextEncoding | undefined,
  onEncoding: (encoding: TextEncoding) => void,
): AsyncGenerator<Buffer> {
  let decoder: TextDecoder | null = null
  let isFirst = true
  for await (const chunk of chunks) {
    let bytes = chunk
    if (isFirst) {
      const [marked, mark] =
        MARKS.find(([, mark]) => mark.equals(chunk.subarray(0, mark.length))) ?? []
      const encoding = given ?? marked ?? 'utf8'
      onEncoding(encoding)
      if (mark && marked === encoding) bytes = chunk.subarray(mark.length)
      const name = DECODERS[encoding]
      decoder = name && new TextDecoder(name, { ignoreBOM: true })
      isFirst = false
    }
    yield decoder ? Buffer.from(decoder.decode(bytes, { stream: true })) : bytes
  }
}
