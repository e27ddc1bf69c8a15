// Rows that wait to be stored, in the order of their emails. They are kept outside of JavaScript's heap: so many
// objects would make the heap grow to several times their size.

/** The more rows are sorted together, the fewer pages of the indexes a batch of neighbours changes. */
const MAX_ROWS = 100_000
const MAX_BYTES = 16_000_000

export type WaitingRow = { line: number; bytes: Buffer }

export class Window {
  readonly #maxRows: number
  /** Of each row its email, then the bytes of the row. */
  readonly #bytes = Buffer.alloc(MAX_BYTES)
  /** Of each row: its line, and where its email, its bytes and the next row begin. */
  readonly #lines = new Uint32Array(MAX_ROWS)
  readonly #starts = new Uint32Array(MAX_ROWS + 1)
  readonly #middles = new Uint32Array(MAX_ROWS)
  #rows = 0

  constructor(maxRows = MAX_ROWS) {
    this.#maxRows = maxRows
  }

  get rows(): number {
    return this.#rows
  }

  /** False if there is no room: the window must be emptied first. */
  add(email: string, { line, bytes }: WaitingRow): boolean {
    const row = this.#rows
    const start = this.#starts[row] ?? 0
    const middle = start + Buffer.byteLength(email)
    if (row >= this.#maxRows || middle + bytes.length > MAX_BYTES) return false
    this.#bytes.write(email, start)
    bytes.copy(this.#bytes, middle)
    this.#middles[row] = middle
    this.#starts[row + 1] = middle + bytes.length
    this.#lines[row] = line
    this.#rows++
    return true
  }

  /** Empties the window when all rows have been taken. */
  *sorted(): Generator<WaitingRow> {
    const [bytes, starts, middles] = [this.#bytes, this.#starts, this.#middles]
    const order = Uint32Array.from({ length: this.#rows }, (_, row) => row)
    const compare = (a: number, b: number) =>
      bytes.compare(bytes, starts[b], middles[b], starts[a], middles[a])
    for (const row of order.sort(compare)) {
      yield {
        line: this.#lines[row] ?? 0,
        bytes: bytes.subarray(middles[row], starts[row + 1]),
      }
    }
    this.#rows = 0
  }
}
