// The progress of an import on a terminal.
import type { Terminal } from '../terminal/terminal.ts'
import type { ImportCounts } from './import-users.ts'

const BAR_WIDTH = 20

export function showProgress(terminal: Terminal, counts: ImportCounts, totalBytes: number | null) {
  const startedMs = performance.now()
  let bytes = 0
  /** Rows that need no hash are so much faster that they tell nothing about the end. */
  let hashingSince: { ms: number; share: number } | null = null
  return {
    async *counting(chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        bytes += chunk.length
        yield chunk
      }
    },
    /** Many rows are read before they are stored, so both are shown. */
    show(rows: number, isHashing: boolean): void {
      const done = Object.values(counts).reduce((sum, count) => sum + count)
      const nowMs = performance.now()
      const perSecond = Math.round(done / ((nowMs - startedMs) / 1_000))
      const speed = `${inEnglish(rows)} rows read, ${inEnglish(done)} done, ${inEnglish(perSecond)} per second`
      const share = rows && totalBytes ? (Math.min(1, bytes / totalBytes) * done) / rows : 0
      const bar = '#'.repeat(Math.floor(share * BAR_WIDTH)).padEnd(BAR_WIDTH, '.')
      const known = totalBytes === null ? '' : `[${bar}] ${Math.floor(share * 100)} % · `
      hashingSince = isHashing ? (hashingSince ?? { ms: nowMs, share }) : null
      const gained = share - (hashingSince?.share ?? share)
      const leftMs = ((nowMs - (hashingSince?.ms ?? nowMs)) * (1 - share)) / gained
      const end = gained > 0 ? `, expected end ${minuteIn(leftMs)}` : ''
      terminal.progress(known + speed + end)
    },
  }
}

function minuteIn(ms: number): string {
  const time = new Date(Date.now() + ms).toISOString()
  return `${time.slice(0, 'YYYY-MM-DDTHH:MM'.length).replace('T', ' ')} UTC`
}

const inEnglish = (number: number) => number.toLocaleString('en')
