// Searches for the most guesses at one email that the rules of the throttle verify within 24 hours. The attacker
// knows the rules, has any number of clients, may prepare for as long as it likes, and chooses each guess.
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import { type ScopeState, ThrottleModel } from './throttle-model.ts'

/** Half a window, so that the attacker may also come in the middle of one. */
const STEP_MS = 7.5 * 60_000
const STEPS_PER_DAY = (24 * 60 * 60_000) / STEP_MS

/** The row of the email, with times relative to now, and what the attacker can do about it. */
type Position = {
  row: ScopeState | undefined
  /** By the number of guesses made now: the position one step later. */
  next: number[]
  /** The first way to this position that was found; null at the start. */
  reachedBy: { from: number; guesses: number } | null
}

/** The attack, from its first guess on, and its guesses in the worst 24 hours. */
export type WorstDay = { guesses: { atMs: number; count: number }[]; most: number }

/** For each position and number of steps left, finds the most guesses by those for one step less. */
export function findWorstDay(scopes: ThrottleScope[]): WorstDay {
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
