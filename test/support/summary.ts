// What the test command prints: a line of progress on a terminal, failures in full, what tests have measured, and the
// slowest files.
import { stripVTControlCharacters } from 'node:util'
import type { Ended } from './reporter.ts'

const SLOWEST_SHOWN = 10

export function createSummary(files: number) {
  const startMs = performance.now()
  const msOfFile = new Map<string, number>()
  let passed = 0
  let failed = 0
  let endedFiles = 0

  function showProgress(): void {
    if (!process.stdout.isTTY) return
    const seconds = Math.round((performance.now() - startMs) / 1000)
    const text = `${seconds} s: ${endedFiles} of ${files} files, ${passed} passed, ${failed} failed`
    process.stdout.write(`\r\x1b[K${text}`)
  }

  function print(text: string): void {
    if (process.stdout.isTTY) process.stdout.write('\r\x1b[K')
    process.stdout.write(`${text}\n`)
  }

  function fail(text: string): void {
    failed++
    print(`\n✖ ${text}\n`)
  }

  return {
    add({ file, name, ms, failure }: Ended): void {
      msOfFile.set(file, (msOfFile.get(file) ?? 0) + ms)
      if (failure === null) passed++
      else fail(`${name}\n${stripVTControlCharacters(failure)}`)
      showProgress()
    },
    /** What a test has measured. */
    show: (figures: string) => print(figures),
    /** All these files have been run. */
    end(bundle: string[]): void {
      endedFiles += bundle.length
      showProgress()
    },
    /** The files could not be run to the end. */
    fail: (bundle: string[], reason: string) => fail(`${reason}: ${bundle.join(' ')}`),
    /** True if all tests have passed. */
    print(): boolean {
      const slowest = [...msOfFile].sort(([, a], [, b]) => b - a).slice(0, SLOWEST_SHOWN)
      print(`\nThe slowest files, in seconds:`)
      for (const [file, ms] of slowest) print(`${(ms / 1000).toFixed(1).padStart(7)}  ${file}`)
      print(`\n${((performance.now() - startMs) / 1000).toFixed(0)} seconds`)
      print(`${passed} passed, ${failed} failed`)
      return failed === 0 && passed > 0
    },
  }
}
