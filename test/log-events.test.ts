// docs/log-events.md, compared with the code and with lines that a real service and real commands write.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { isUuid } from '../src/identifiers.ts'
import { PROJECT } from './process.ts'
import { provokeByProcesses } from './provoked-processes.ts'
import { provokeByRequests } from './provoked-requests.ts'

type Line = Record<string, unknown>

const textOf = (file: string) => readFileSync(join(PROJECT, file), 'utf8')
const document = textOf('docs/log-events.md')
const examples: Line[] = [...document.matchAll(/^\{.*\}$/gm)].map(([line]) => JSON.parse(line))
/** The events in the tables, with their levels. */
const listed = [...document.matchAll(/^\| `([a-z_]+\.[a-z_]+)` \| ([a-z, ]+) \|/gm)].map(
  ([, event = '', levels = '']) => ({ event, levels: levels.split(', ') }),
)
const examplesOf = (event: string) => examples.filter(line => line.event === event)

/** The events in the code: of the service as fields of lines, of commands as names. */
function eventsInCode(): string[] {
  const files = globSync('src/**/*.ts', { cwd: PROJECT, exclude: ['**/*.test.ts'] })
  const names = files.flatMap(file => {
    const name = file.startsWith('src/admin/') ? /'(admin\.[a-z_]+)'/g : /event: '([a-z_.]+)'/g
    return [...textOf(file).matchAll(name)].map(match => match[1] ?? '')
  })
  return [...new Set(names)].toSorted()
}

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

/** Fields with a closed set of values, and the declarations in `src/` that list them. */
const CLOSED: [field: string, event: string, declarations: [file: string, start: string][]][] = [
  ['reason', 'login.failed', [['login/decision.ts', 'type RejectionReason =']]],
  ['reason', 'login.shed', [['login/admission.ts', 'type ShedReason =']]],
  ['scope', 'login.throttled', [['domain/attempt.ts', 'type ScopeName =']]],
  ['reason', 'session.ended', [['metrics/metrics.ts', 'const REASONS =']]],
  ['credential', 'session.refused', [['session/authenticate.ts', 'type Credential =']]],
  [
    'reason',
    'session.refused',
    [
      ['session/token-reason.ts', 'type TokenReason ='],
      ['domain/session.ts', 'type SessionReason ='],
      ['session/authenticate.ts', 'type AccessReason ='],
    ],
  ],
  [
    'reason',
    'request.refused',
    [
      ['http/request/log.ts', 'const REASON_OF ='],
      ['http/request/log.ts', 'type OriginReason ='],
    ],
  ],
  ['reason', 'admin.refused', [['http/admin/access.ts', 'type Reason =']]],
]
/** Their reasons are signals, or errors of the system. */
const OPEN = ['admin.tokens_unusable', 'service.stopping', 'service.stopped']

/** The first column of the table about a field. */
function documentedValues(field: string, event: string): string[] {
  const [, rows = ''] = document.split(`\n| \`${field}\` of \`${event}\` | means |\n|---|---|\n`)
  const [table = ''] = rows.split('\n\n')
  return [...table.matchAll(/^\| `([a-z-]+)` \|/gm)].map(match => match[1] ?? '')
}

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

describe('the lines of a service and of commands', () => {
  let lines: Line[]
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
function toCount(line: Line): Line {
  const { requestId, userAgent, email, origin, err, msg, ...facts } = line
  return { ...facts, count: 1, ...(msg && !err ? { msg } : {}) }
}

/** The fields of a line in their order, with the kinds of their values. The level is a part of the shape. */
function shapeOf({ level, ...fields }: Line): string {
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
