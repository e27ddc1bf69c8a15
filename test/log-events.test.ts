// docs/log-events.md, compared with the code.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  CLOSED,
  documentedValues,
  eventsInCode,
  examples,
  examplesOf,
  listed,
  textOf,
} from './log-document.ts'

test('every event of the code is listed once, and no other', () => {
  const events = listed.map(({ event }) => event)
  assert.ok(events.length > 50)
  assert.deepEqual(events.toSorted(), eventsInCode())
})

test('every listed event has examples of its levels, and there is no other example', () => {
  for (const { event, levels } of listed) {
    const shown = new Set(examplesOf(event).map(({ level }) => level))
    assert.deepEqual([...shown].toSorted(), levels.toSorted(), event)
  }
  const events = new Set<unknown>(listed.map(({ event }) => event))
  assert.deepEqual(
    examples.filter(({ event }) => !events.has(event)),
    [],
  )
})

/** Their reasons are signals, or errors of the system. */
const OPEN = ['admin.tokens_unusable', 'service.stopping', 'service.stopped']

for (const [field, event, declarations] of CLOSED) {
  test(`the ${field} of ${event} has the values that the code gives it`, () => {
    const values = declarations.flatMap(([file, start]) => {
      const [, after] = textOf(`src/${file}`).split(`${start}`)
      assert.ok(after, `${file} has no ${start}`)
      const [declaration = ''] = after.split('\n\n')
      return [...declaration.matchAll(/'([a-z-]+)'/g)].map(match => match[1] ?? '')
    })
    assert.ok(values.length > 2)
    assert.deepEqual(documentedValues(field, event).toSorted(), values.toSorted())
  })
}

test('every event with a reason has a table of its reasons, or they are an open set', () => {
  const closed = CLOSED.flatMap(([field, event]) => (field === 'reason' ? [event] : []))
  const withReason = new Set(examples.flatMap(({ event, reason }) => (reason ? [event] : [])))
  assert.deepEqual([...withReason].toSorted(), [...closed, ...OPEN].toSorted())
})
