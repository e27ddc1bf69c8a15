// docs/log-events.md, compared with lines that a real service and real commands write.
import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import { before, describe, test } from 'node:test'
import { isUuid } from '../../src/identifiers.ts'
import {
  CLOSED,
  documentedValues,
  eventsInCode,
  examples,
  examplesOf,
  type LoggedLine,
} from '../log-document.ts'
import { provokeByProcesses } from '../provoked-processes.ts'
import { provokeByRequests } from '../provoked-requests.ts'

describe('the lines of a service and of commands', () => {
  let lines: LoggedLine[]
  before(async () => {
    lines = (await Promise.all([provokeByRequests(), provokeByProcesses()])).flat()
  })

  for (const event of eventsInCode()) {
    test(`${event} is written as in its examples, and each example is met`, () => {
      const written = lines.filter(line => line.event === event)
      const shown = examplesOf(event)
      assert.ok(written.length > 0, 'not provoked')
      const shapes = new Set(written.map(shapeOf))
      for (const example of shown) assert.ok(shapes.has(shapeOf(example)), shapeOf(example))
      const allowed = [...shown, ...shown.map(toCount)].map(shapeOf)
      for (const shape of shapes) assert.ok(allowed.includes(shape), shape)
    })
  }

  test('fields with a closed set of values have no other value', () => {
    for (const [field, event] of CLOSED) {
      const values = documentedValues(field, event)
      for (const line of [...lines, ...examples].filter(line => line.event === event)) {
        assert.ok(values.includes(String(line[field])), JSON.stringify(line))
      }
    }
  })
})

/** A line of this event that counts repetitions. */
function toCount(line: LoggedLine): LoggedLine {
  const { requestId, userAgent, email, origin, err, msg, ...facts } = line
  return { ...facts, count: 1, ...(msg && !err ? { msg } : {}) }
}

/** The fields of a line in their order, with the kinds of their values. The level is a part of the shape. */
function shapeOf({ level, ...fields }: LoggedLine): string {
  return [
    level,
    ...Object.entries(fields).map(([name, value]) => `${name}: ${kindOf(value)}`),
  ].join(', ')
}

function kindOf(value: unknown): string {
  if (typeof value === 'string') {
    if (isUuid(value)) return 'UUID'
    if (isIP(value)) return 'IP address'
    return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? 'time' : 'text'
  }
  if (Array.isArray(value)) return `list of ${[...new Set(value.map(kindOf))].join(' and ')}`
  if (typeof value !== 'object') return typeof value
  // Not every error has a code.
  const { code: _, ...error } = Object(value)
  return `{ ${shapeOf(error).slice(2)} }`
}
