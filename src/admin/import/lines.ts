// Splits a file into lines. Memory is bounded: of a line that is too long, only the start is kept.

/** Exports of other systems have columns of metadata, some with a picture. */
export const MAX_LINE_BYTES = 1_048_576
const LINE_FEED = 0x0a

export type Line = {
  number: number
  /** Ends with a line feed, unless it is too long. */
  bytes: Buffer
  isTooLong: boolean
}

/** The lines of one chunk at a time. A last line without a line feed gets one. */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Line[]> {
  let rest: Buffer = Buffer.alloc(0)
  let number = 1
  let isInLongLine = false
  for await (const chunk of chunks) {
    const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
    const lines: Line[] = []
    let start = 0
    for (;;) {
      const end = bytes.indexOf(LINE_FEED, start) + 1
      if (end === 0) break
      const isTooLong = end - start > MAX_LINE_BYTES
      if (!isInLongLine) lines.push({ number, bytes: bytes.subarray(start, end), isTooLong })
      isInLongLine = false
      number++
      start = end
    }
    rest = bytes.subarray(start)
    if (rest.length > MAX_LINE_BYTES || isInLongLine) {
      if (!isInLongLine) lines.push({ number, bytes: rest, isTooLong: true })
      isInLongLine = true
      rest = Buffer.alloc(0)
    }
    yield lines
  }
  if (rest.length > 0) {
    yield [{ number, bytes: Buffer.concat([rest, Buffer.of(LINE_FEED)]), isTooLong: false }]
  }
}
