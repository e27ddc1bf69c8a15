// The progress of an import on a terminal.
import type { Terminal } from '../terminal/terminal.ts'
import type { ImportCounts } from './import-users.ts'

const BAR_WIDTH = 20

export function showProgress(terminal: Terminal, counts: ImportCounts, totalBytes: number | null) {
  const startedMs = performance.now()
  let bytes = 0
  return {
    async *counting(chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        bytes += chunk.length
        yield chunk
      }
    },
    /** Many rows are read before they are stored, so both are shown. */
    show(rows: number): void {
      const done = Object.values(counts).reduce((sum, count) => sum + count)
      const perSecond = Math.round(done / ((performance.now() - startedMs) / 1_000))
      const speed = `${inEnglish(rows)} rows read, ${inEnglish(done)} done, ${inEnglish(perSecond)} per second`
      const share = rows && totalBytes ? (Math.min(1, bytes / totalBytes) * done) / rows : 0
      const bar = '#'.repeat(Math.floor(share * BAR_WIDTH)).padEnd(BAR_WIDTH, '.')
      const known = totalBytes === null ? '' : `[${bar}] ${Math.floor(share * 100)} % · `
      terminal.progress(known + speed)
    },
  }
}

const inEnglish = (number: number) => number.toLocaleString('en')
