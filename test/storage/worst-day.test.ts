// The most guesses at one email that are verified within any 24 hours: of the rules, and of every engine. The attacker
// knows the rules, has any number of clients, may prepare for as long as it likes, and chooses each guess.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { DAY_MS, MINUTE_MS } from '../support/session-client.ts'
import { makeScopes, UNKNOWN_EMAIL } from './fixtures.ts'
import { type ScopeState, ThrottleModel } from './throttle-model.ts'

const START = Date.parse('2030-01-01T00:00:00Z')
/** Half a window, so that the attacker may also come in the middle of one. */
const STEP_MS = 7.5 * MINUTE_MS
const STEPS_PER_DAY = DAY_MS / STEP_MS

/** The row of the email, with times relative to now, and what the attacker can do about it. */
type Position = {
  row: ScopeState | undefined
  /** By the number of guesses made now: the position one step later. */
  next: number[]
  /** The first way to this position that was found; null at the start. */
  reachedBy: { from: number; guesses: number } | null
}

const emailScopes = makeScopes().filter(({ name }) => name === 'email')
const worst = findWorstDay(emailScopes)

test('an attacker that knows the rules gets 196 guesses in its best 24 hours', () => {
  assert.equal(worst.most, 196)
})

for (const engine of ENGINES) {
  test(`no 24 hours have more guesses on ${engine}`, async () => {
    const { store } = await openTestStore(engine)

    /** Guesses until an attempt is refused, up to `most` times. */
    async function guess(atMs: number, most: number): Promise<number> {
      const now = new Date(START + atMs)
      for (let guesses = 0; guesses < most; guesses++) {
        const { kind } = await store.attempts.reserve(emailScopes, UNKNOWN_EMAIL, now)
        if (kind !== 'admitted') return guesses
        await store.attempts.fail(emailScopes, null, now)
      }
      return most
    }

    // Two guesses, then as many as possible from shortly before the first ones are a day old.
    assert.equal(await guess(0, 2), 2)
    const late = 22.75 * 60 * MINUTE_MS
    await store.maintenance.purge(new Date(START + late))
    let inADay = 0
    for (let ms = 0; ms < DAY_MS; ms += 15 * MINUTE_MS) inADay += await guess(late + ms, Infinity)
    assert.ok(inADay <= worst.most, `${inADay} guesses`)

    let verified = 0
    for (const { atMs, count } of worst.guesses) verified += await guess(10 * DAY_MS + atMs, count)
    assert.equal(verified, worst.most, 'the best attack on the rules succeeds')
  })
}

/**
 * The attack, from its first guess on, and its guesses in the worst 24 hours. For each position and number of steps left,
 * finds the most guesses by those for one step less.
 */
function findWorstDay(scopes: ThrottleScope[]) {
  const positions = explore(scopes)
  const mostBySteps = [new Int16Array(positions.length)]
  const mostAfter = (steps: number, position: number) => mostBySteps[steps]?.[position] ?? 0
  for (let steps = 1; steps <= STEPS_PER_DAY; steps++) {
    const most = positions.map(({ next }) =>
      next.reduce((a, to, guesses) => Math.max(a, guesses + mostAfter(steps - 1, to)), 0),
    )
    mostBySteps.push(Int16Array.from(most))
  }
  const most = Math.max(...positions.map((_, start) => mostAfter(STEPS_PER_DAY, start)))
  const start = positions.findIndex((_, start) => mostAfter(STEPS_PER_DAY, start) === most)

  const counts: number[] = []
  for (let by = positions[start]?.reachedBy; by; by = positions[by.from]?.reachedBy) {
    counts.unshift(by.guesses)
  }
  for (let steps = STEPS_PER_DAY, at = start; steps > 0; steps--) {
    const next = positions[at]?.next ?? []
    const count = next.findIndex(
      (to, guesses) => guesses + mostAfter(steps - 1, to) === mostAfter(steps, at),
    )
    counts.push(count)
    at = next[count] ?? 0
  }
  const guesses = counts.map((count, step) => ({ atMs: step * STEP_MS, count }))
  return { guesses: guesses.filter(({ count }) => count > 0), most }
}

/** All positions that can be reached from an email without a row. A refused attempt would only cost time. */
function explore(scopes: ThrottleScope[]): Position[] {
  const start: Position = { row: undefined, next: [], reachedBy: null }
  const positions = [start]
  const indexes = new Map([[JSON.stringify(start.row), 0]])
  const indexOf = (row: ScopeState | undefined, reachedBy: Position['reachedBy']) => {
    const id = JSON.stringify(row)
    const index = indexes.get(id) ?? positions.push({ row, next: [], reachedBy }) - 1
    indexes.set(id, index)
    return index
  }
  // The list grows while it is read.
  for (const [from, { row, next }] of positions.entries()) {
    const model = new ThrottleModel([])
    for (const { key } of scopes) if (row) model.scopes.set(key, { ...row })
    for (let guesses = 0; ; guesses++) {
      next.push(indexOf(rowAfterStep(model), { from, guesses }))
      if (model.reserve(scopes, '', 0).kind !== 'admitted') break
      model.fail(scopes, '', 0)
    }
  }
  return positions
}

function rowAfterStep(model: ThrottleModel): ScopeState | undefined {
  const [row] = model.scopes.values()
  if (!row || row.expiresAt <= STEP_MS) return undefined
  const isWindowOver = row.windowEndsAt <= STEP_MS
  return {
    ...row,
    // These no longer matter, and must not make two positions of one.
    ...(isWindowOver && { failures: 0 }),
    windowEndsAt: isWindowOver ? 0 : row.windowEndsAt - STEP_MS,
    leaseEndsAt: 0,
    clearsAt: row.clearsAt && row.clearsAt > STEP_MS ? row.clearsAt - STEP_MS : null,
    expiresAt: row.expiresAt - STEP_MS,
  }
}
