// Remembers that the disk of the database was full or failed. Then a small write, like that of the readiness check,
// may still succeed where the larger one of a login fails.

/** Longer than most probes pause. Once logins fail no more, the service is ready after this time. */
const REMEMBERED_MS = 10_000

// https://www.sqlite.org/rescode.html
const SQLITE_CODES = [10 /* IOERR */, 13 /* FULL */]
// https://www.postgresql.org/docs/current/errcodes-appendix.html
const SQL_STATES = ['53100' /* disk_full */, '58030' /* io_error */]

export function createWriteFaults() {
  let last: { error: unknown; atMs: number } | null = null
  return {
    /** To be called with every error of the store. */
    report(error: unknown): void {
      const { errcode, code } = Object(error)
      const isWriteFault = SQLITE_CODES.includes(errcode & 0xff) || SQL_STATES.includes(code)
      if (isWriteFault) last = { error, atMs: performance.now() }
    },
    /** Throws the last write fault, if it is recent. */
    check(): void {
      if (last && performance.now() - last.atMs < REMEMBERED_MS) throw last.error
    },
  }
}
