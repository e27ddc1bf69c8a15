// The names of the log events in docs/log-events.md and in the code are the same.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PROJECT } from '../support/process.ts'

const textOf = (file: string) => readFileSync(join(PROJECT, file), 'utf8')

/** Of the service as fields of lines, of commands as names. */
function eventsInCode(): string[] {
  const files = globSync('src/**/*.ts', { cwd: PROJECT, exclude: ['**/*.test.ts'] })
  const names = files.flatMap(file => {
    const name = /^src\/(admin|cli)\//.test(file) ? /'(admin\.[a-z_]+)'/g : /event: '([a-z_.]+)'/g
    return [...textOf(file).matchAll(name)].map(match => match[1] ?? '')
  })
  return [...new Set(names)].toSorted()
}

test('every event of the code is listed once, and no other', () => {
  const rows = textOf('docs/log-events.md').matchAll(/^\| `([a-z_]+\.[a-z_]+)` \|/gm)
  const events = [...rows].map(([, event = '']) => event)
  assert.ok(events.length > 50)
  assert.deepEqual(events.toSorted(), eventsInCode())
})
