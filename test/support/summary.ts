// What the test command prints: a line of progress on a terminal, failures in full, what tests have measured, and the
// slowest files.
import { stripVTControlCharacters } from 'node:util'
import type { Ended } from './reporter.ts'

const SLOWEST_SHOWN = 10

export function createSummary(files: number) {
  const startMs = performance.now()
  const msOfFile = new Map<string, number>()
  /** The files of a process in which a test failed, or the process itself. */
  let failedBundles = new Set<string[]>()
  let again: string[][] = []
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

  function fail(bundle: string[], text: string): void {
    failed++
    failedBundles.add(bundle)
    print(`\n✖ ${text}\n`)
  }

  return {
    add({ file, name, ms, failure }: Ended, bundle: string[]): void {
      msOfFile.set(file, (msOfFile.get(file) ?? 0) + ms)
      if (failure === null) passed++
      else fail(bundle, `${name}\n${stripVTControlCharacters(failure)}`)
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
    fail: (bundle: string[], reason: string) => fail(bundle, `${reason}: ${bundle.join(' ')}`),
    /** What failed until now is run again. From now on, only new failures count. */
    takeFailed(): string[][] {
      again = [...failedBundles]
      failedBundles = new Set()
      failed = 0
      return [...again]
    },
    /** True if all tests have passed. */
    print(): boolean {
      for (const bundle of again) {
        const result = failedBundles.has(bundle)
          ? 'failed twice'
          : 'passed only when run again, alone'
        print(`${result}: ${bundle.join(' ')}`)
      }
      const slowest = [...msOfFile].sort(([, a], [, b]) => b - a).slice(0, SLOWEST_SHOWN)
      print(`\nThe slowest files, in seconds:`)
      for (const [file, ms] of slowest) print(`${(ms / 1000).toFixed(1).padStart(7)}  ${file}`)
      print(`\n${((performance.now() - startMs) / 1000).toFixed(0)} seconds`)
      print(`${passed} passed, ${failed} failed`)
      return failed === 0 && passed > 0
    },
  }
}
