// Rows that wait to be stored, in the order of their emails. Their bytes are kept outside of JavaScript's heap:
// so many objects would make the heap grow to several times their size.

const MAX_ROWS = 25_000
const MAX_BYTES = 8_000_000

export type WaitingRow = { line: number; bytes: Buffer }

export class Window {
  readonly #maxRows: number
  readonly #bytes = Buffer.alloc(MAX_BYTES)
  readonly #ends = new Uint32Array(MAX_ROWS + 1)
  readonly #lines = new Uint32Array(MAX_ROWS)
  #emails: string[] = []

  constructor(maxRows = MAX_ROWS) {
    this.#maxRows = maxRows
  }

  get rows(): number {
    return this.#emails.length
  }

  /** False if there is no room: the window must be emptied first. */
  add(email: string, { line, bytes }: WaitingRow): boolean {
    const row = this.rows
    const start = this.#ends[row] ?? 0
    if (row >= this.#maxRows || start + bytes.length > MAX_BYTES) return false
    bytes.copy(this.#bytes, start)
    this.#ends[row + 1] = start + bytes.length
    this.#lines[row] = line
    // Copied, because a part of a string keeps the whole of it in memory.
    this.#emails.push(`${Buffer.from(email)}\n${row}`)
    return true
  }

  /** Empties the window when all rows have been taken. */
  *sorted(): Generator<WaitingRow> {
    // The line feed sorts before all characters of an email.
    for (const email of this.#emails.sort()) {
      const row = Number(email.slice(email.indexOf('\n') + 1))
      const [start, end] = this.#ends.subarray(row, row + 2)
      yield { line: this.#lines[row] ?? 0, bytes: this.#bytes.subarray(start, end) }
    }
    this.#emails = []
  }
}
