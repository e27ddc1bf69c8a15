// The progress of an import, as a line on a terminal.

const BAR_WIDTH = 20

/** `clock` in milliseconds. */
export function createProgress(total: number, clock: () => number) {
  const startedMs = clock()
  /** When the first password was hashed. Rows without a password are so much faster that they do not tell the end. */
  let hashing: { sinceMs: number; done: number } | null = null

  /** `isHashing`: the last rows got temporary passwords. */
  return (done: number, isHashing: boolean): string => {
    const nowMs = clock()
    const bar = '#'.repeat(Math.floor((done / total) * BAR_WIDTH)).padEnd(BAR_WIDTH, '.')
    const perSecond = Math.round(done / ((nowMs - startedMs) / 1_000 || 1))
    const rows = `${inEnglish(done)} of ${inEnglish(total)} rows, ${inEnglish(perSecond)} per second`
    hashing = isHashing ? (hashing ?? { sinceMs: nowMs, done }) : null
    const hashed = hashing ? done - hashing.done : 0
    if (!hashing || hashed === 0) return `[${bar}] ${rows}`
    const endMs = nowMs + ((nowMs - hashing.sinceMs) * (total - done)) / hashed
    const end = new Date(endMs).toISOString().slice(0, 'YYYY-MM-DDTHH:MM'.length)
    return `[${bar}] ${rows}, expected end ${end.replace('T', ' ')} UTC`
  }
}

const inEnglish = (number: number) => number.toLocaleString('en')
