// Each row of the table in docs/throttle.md, and random histories that must go as in the model of the tests.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ThrottleModel } from '../../test/storage/throttle-model.ts'
import type { ScopeName, ThrottleScope } from './attempt.ts'
import {
  clearFailures,
  fail,
  pass,
  release,
  reserve,
  rowOf,
  type ScopeRow,
  stateOf,
} from './throttle-rules.ts'

const MINUTE = 60_000
const START = Date.parse('2030-01-01T00:00:00Z')
const at = (minutes: number) => new Date(START + minutes * MINUTE)
const NOW = at(0)

function scopeOf(name: ScopeName, maxFailures = 2, maxDailyFailures: number | null = null) {
  const emailDigest = name === 'client' || name === 'network' ? null : 'a digest'
  return { name, key: name, emailDigest, maxFailures, maxDailyFailures } satisfies ThrottleScope
}
const PAIR = scopeOf('pair')
const EMAIL = scopeOf('email', 3, 4)
const CLIENT = scopeOf('client', 3)
const SCOPES = [PAIR, EMAIL, CLIENT]

/** As after a failure now, with what the test says. */
function row(scope: ThrottleScope, own: Partial<ScopeRow> = {}): ScopeRow {
  const failed = { failures: 1, windowEndsAt: at(15), expiresAt: at(16) }
  return { ...rowOf(scope, []), ...failed, ...own }
}

/** What it stores of each scope. */
function stored(rows: ScopeRow[], scopes = SCOPES, now = NOW) {
  const { kind, ...rest } = reserve(scopes, rows, now)
  return { kind, ...rest, changed: 'changed' in rest ? rest.changed : [] }
}

test('a first attempt is admitted, pending in every scope and starts every window', () => {
  const first = { pending: 1, leaseEndsAt: at(1), windowEndsAt: at(15), expiresAt: at(16) }
  const changed = SCOPES.map(scope => row(scope, { failures: 0, ...first }))
  assert.deepEqual(reserve(SCOPES, [], NOW), { kind: 'admitted', changed })
})

test('an attempt that finds the failures used up blocks these scopes only, and is told the block that ends last', () => {
  const rows = [row(PAIR, { failures: 2 }), row(EMAIL, { blockedUntil: at(3) }), row(CLIENT)]
  assert.deepEqual(reserve(SCOPES, rows, NOW), {
    ...{ kind: 'blocked', scope: 'pair', blockedUntil: at(15), blocksEmail: false },
    changed: [row(PAIR, { failures: 2, blockedUntil: at(15) })],
  })
})

test('of several blocks, the attempt is told the one that ends last, until its last millisecond', () => {
  const rows = [
    row(PAIR, { blockedUntil: at(3) }),
    row(EMAIL, { blockedUntil: at(5) }),
    row(CLIENT),
  ]
  for (const scopes of [SCOPES, SCOPES.toReversed()]) {
    const verdict = reserve(scopes, rows, new Date(at(5).getTime() - 1))
    assert.deepEqual(verdict, {
      ...{ kind: 'blocked', scope: 'email', blockedUntil: at(5), blocksEmail: false, changed: [] },
    })
    assert.equal(Object(reserve(scopes, rows, NOW)).scope, 'email')
  }
  assert.equal(reserve(SCOPES, rows, at(5)).kind, 'admitted')
})

test('only the attempt that blocks the email says so, and no later one extends the block', () => {
  const spent = row(EMAIL, { failures: 3 })
  const first = stored([spent], [EMAIL])
  assert.deepEqual([first.kind, Object(first).blocksEmail], ['blocked', true])
  assert.deepEqual(reserve([EMAIL], first.changed, at(5)), {
    ...{ kind: 'blocked', scope: 'email', blockedUntil: at(15), blocksEmail: false, changed: [] },
  })
  assert.equal(reserve([EMAIL], first.changed, at(15)).kind, 'admitted')
})

test('an attempt waits while all failures that are left are reserved', () => {
  const rows = [row(PAIR), row(EMAIL, { pending: 2, leaseEndsAt: at(1) })]
  assert.deepEqual(reserve(SCOPES, rows, NOW), { kind: 'busy', key: 'email', capacity: 2 })
})

test('a lease that is over turns pending attempts into failures, of an email for the day too', () => {
  const [pair, email] = [PAIR, EMAIL].map(it =>
    row(it, { failures: 0, pending: 1, leaseEndsAt: at(1) }),
  )
  assert.ok(pair && email)
  const { changed } = stored([pair, email], [PAIR, EMAIL], at(1))
  const counted = { failures: 1, pending: 1, leaseEndsAt: at(2), expiresAt: at(17) }
  assert.deepEqual(changed, [row(PAIR, counted), row(EMAIL, { ...counted, clearsAt: at(16) })])
})

test('a window or block that is over, or too far away for a right clock, does not count', () => {
  for (const end of [at(0), at(30.1), at(-1)]) {
    for (const own of [{ windowEndsAt: end }, { blockedUntil: end }]) {
      const { changed } = stored([row(PAIR, { failures: 2, ...own })], [PAIR])
      assert.deepEqual(
        changed.map(({ failures, blockedUntil }) => [failures, blockedUntil]),
        [[0, null]],
      )
    }
  }
})

test('when the failures for the day are used up, each window allows one', () => {
  const spent = { failures: 0, clearsAt: at(4 * 15), windowEndsAt: at(0) }
  const budget = (own: Partial<ScopeRow>) => stateOf(EMAIL, row(EMAIL, own), NOW).budget
  assert.equal(budget(spent), 1)
  assert.equal(budget({ ...spent, clearsAt: at(2 * 15) }), 2)
  assert.equal(budget({ ...spent, failures: 1, windowEndsAt: at(1) }), 1)
})

test('a failure counts, and starts the window if it is the first; the day is of an email only', () => {
  const pending = { pending: 2, leaseEndsAt: at(1) }
  const after = (scope: ThrottleScope, own: Partial<ScopeRow>, minutes: number) => {
    const { failures, pending, windowEndsAt, clearsAt, expiresAt } = fail(
      row(scope, own),
      at(minutes),
    )
    return [failures, pending, windowEndsAt, clearsAt, expiresAt]
  }
  assert.deepEqual(after(PAIR, pending, 1), [2, 1, at(15), null, at(17)])
  assert.deepEqual(after(PAIR, { ...pending, failures: 0 }, 1), [1, 1, at(16), null, at(17)])
  assert.deepEqual(after(PAIR, pending, 15), [1, 1, at(30), null, at(31)])
  assert.deepEqual(after(EMAIL, pending, 1), [2, 1, at(15), at(16), at(17)])
  assert.deepEqual(after(EMAIL, { clearsAt: at(20) }, 1), [2, 0, at(15), at(35), at(35)])
})

test('a right password clears the failures of its pair and device only; a release clears none', () => {
  for (const name of ['pair', 'device', 'email', 'client', 'network'] as const) {
    const found = row(scopeOf(name), { pending: 1 })
    const isCleared = name === 'pair' || name === 'device'
    assert.deepEqual(pass(found), { ...found, pending: 0, failures: isCleared ? 0 : 1 })
    assert.deepEqual(release(found), { ...found, pending: 0 })
    assert.equal(release(release(found)).pending, 0)
  }
})

test('an unlock or a clear forgives all that was counted; pending attempts and windows stay', () => {
  const counted = [
    row(PAIR, { failures: 2, pending: 1, blockedUntil: at(3) }),
    row(EMAIL, { failures: 0, clearsAt: at(3 * 15) }),
    row(CLIENT, { failures: 0, blockedUntil: at(5) }),
    row(scopeOf('device'), { failures: 1 }),
  ]
  const none = row(scopeOf('network'), { failures: 0, pending: 1 })
  const forgiven = { failures: 0, clearsAt: null, blockedUntil: null }
  assert.deepEqual(clearFailures([...counted, none], NOW), {
    changed: counted.map(row => ({ ...row, ...forgiven })),
    ...{ failures: 3, blockedUntil: at(5) },
  })
  assert.deepEqual(
    [{ failures: 7 }, { clearsAt: at(1) }, { failures: 0, blockedUntil: at(5) }].map(own => {
      const cleared = clearFailures([row(EMAIL, own)], NOW)
      return [cleared?.failures, cleared?.blockedUntil]
    }),
    [
      [7, null],
      [1, null],
      [0, at(5)],
    ],
  )
  assert.equal(clearFailures([none], NOW), null)
})

const step = fc.record({
  event: fc.constantFrom('reserve', 'reserve', 'reserve', 'fail', 'fail', 'pass', 'release'),
  scopes: fc.subarray([...SCOPES, scopeOf('device', 1)], { minLength: 1 }),
  waitMs: fc.constantFrom(0, 0, 1, MINUTE, 5 * MINUTE, 15 * MINUTE, 60 * MINUTE, -20 * MINUTE),
})

test('random histories go as in the model', () => {
  const goesAsInTheModel = fc.property(fc.array(step, { maxLength: 40, size: 'max' }), steps => {
    const model = new ThrottleModel([])
    const rows = new Map<string, ScopeRow>()
    let now = START
    for (const { event, scopes, waitMs } of steps) {
      now += waitMs
      const found = scopes.flatMap(({ key }) => rows.get(key) ?? [])
      const keep = (changed: ScopeRow[]) => {
        for (const row of changed) rows.set(row.key, row)
      }
      if (event === 'reserve') {
        const verdict = reserve(scopes, found, new Date(now))
        assert.equal(verdict.kind, model.reserve(scopes, 'no user', now).kind)
        if ('changed' in verdict) keep(verdict.changed)
      } else if (event === 'fail') {
        keep(found.map(row => fail(row, new Date(now))))
        model.fail(scopes, 'no user', now)
      } else {
        keep(found.map(event === 'pass' ? pass : release))
        if (event === 'pass') model.pass(scopes, null, now)
        else model.release(scopes)
      }
      const inMs = Array.from(rows, ([key, { key: _, name, ...row }]) => {
        const times = Object.entries(row).map(([field, value]) => [
          field,
          value instanceof Date ? value.getTime() : value,
        ])
        return [key, { scope: name, ...Object.fromEntries(times) }] as const
      })
      assert.deepEqual(new Map(inMs), model.scopes)
    }
  })
  fc.assert(goesAsInTheModel, { numRuns: 1_000 })
})
