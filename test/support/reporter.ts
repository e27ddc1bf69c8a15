// Runs in each process of the test command and tells the command about every test that has ended,
// and what it has measured.
import { relative } from 'node:path'
import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'

export type Ended = {
  file: string
  name: string
  ms: number
  /** Everything that is known of a failure; null if the test has passed. */
  failure: string | null
}

/** What a test has measured. */
export type Figures = { figures: string }

export default async function* report(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of source) {
    // Node's own diagnostics have no file.
    if (type === 'test:diagnostic' && data.file) process.send?.({ figures: data.message })
    if (type !== 'test:pass' && type !== 'test:fail') continue
    const { name, file, details, line } = data
    const error = type === 'test:fail' ? data.details.error : null
    // A suite fails by itself only if its own code or hook does.
    const isSuite = details.type === 'suite'
    const isSecondary = error && 'failureType' in error && error.failureType === 'subtestsFailed'
    if (isSecondary || (isSuite && !error)) continue
    const where = relative(process.cwd(), file ?? '')
    process.send?.({
      file: where,
      name,
      ms: details.duration_ms,
      failure: error && `${where}:${line}\n${inspect(error.cause ?? error)}`,
    })
  }
  process.send?.('done')
  // A reporter must be a generator. The command prints, so there is nothing to write here.
  yield ''
}
