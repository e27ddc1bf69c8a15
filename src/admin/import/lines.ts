// Splits a file into lines. Every byte of the file is in exactly one line, and memory is bounded: a line that
// is too long comes in parts.

/** The longest row with allowed values has less than 4 KB. */
export const MAX_LINE_BYTES = 65_536
const LINE_FEED = 0x0a
const BYTE_ORDER_MARK = Buffer.from('\ufeff')

export type Line = {
  number: number
  /** Ends with a line feed, unless the next part of a long line follows. */
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
      const isTooLong = isInLongLine || end - start > MAX_LINE_BYTES
      lines.push({ number, bytes: bytes.subarray(start, end), isTooLong })
      isInLongLine = false
      number++
      start = end
    }
    rest = bytes.subarray(start)
    if (rest.length > MAX_LINE_BYTES) {
      lines.push({ number, bytes: rest, isTooLong: true })
      isInLongLine = true
      rest = Buffer.alloc(0)
    }
    yield lines
  }
  if (rest.length > 0 || isInLongLine) {
    const bytes = Buffer.concat([rest, Buffer.of(LINE_FEED)])
    yield [{ number, bytes, isTooLong: isInLongLine }]
  }
}

export function withoutByteOrderMark(bytes: Buffer): Buffer {
  return bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? bytes.subarray(3) : bytes
}
