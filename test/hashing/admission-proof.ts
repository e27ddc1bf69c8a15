// Random histories of attempts, played on the hash queue with a simulated hasher. An attempt that is hashed
// must end in time. An attempt that is shed is tried in a model that shares no code with the queue: it finds
// the order one attempt after the other, and lets time pass in short steps.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { HashJob } from '../../src/bcrypt/hasher.ts'
import { MARGIN_MS } from '../../src/hashing/capacity.ts'
import { MARGIN_AFTER_MS } from '../../src/hashing/evictions.ts'
import { createHashQueue, type HashSlot, SHEDDING_MS } from '../../src/hashing/hash-queue.ts'
import { REMEMBERED_MS } from '../../src/hashing/recent-hashes.ts'
import { CHUNK_MS, COST, ROUNDS, settled, simulateHasher } from './simulated-hasher.ts'

/**
 * ADMISSION_SEED plays other histories. About one in 30,000 is shed although the model sees room: whether a
 * hash is about to end is a yes or no, and the steps of the model may see it a moment earlier.
 */
const SEED = Number(process.env.ADMISSION_SEED ?? 1)
const STEP_MS = 2
/** Two chunks, because a hash joins between them, and what the steps of the model are off. */
const TOLERANCE_MS = 2 * CHUNK_MS + 2 * STEP_MS
/** How long a hash takes alone, beside another and so on. */
const HASH_MS = [305, 330, 370, 430, 500, 610]
const RESERVE_MS = [0, 1, 2, 5, 20]
const CLIENTS_OF_NETWORK = 2

type ModelAttempt = {
  network: number
  client: number
  account: number
  hasPriority: boolean
  finishByMs: number
  job: HashJob
}

type Machine = { threads: number; roundMs: number[]; loginTimeMs: number }

const MACHINE = fc.record({
  threads: fc.integer({ min: 1, max: 3 }),
  lanes: fc.integer({ min: 1, max: HASH_MS.length }),
  slowness: fc.constantFrom(0.25, 0.5, 1, 1, 2),
  loginTimeMs: fc.constantFrom(500, 1_000, 1_000, 2_000),
})
const ARRIVAL = fc.record({
  afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 400 })),
  client: fc.nat(6),
  account: fc.nat(6),
  isKnownDevice: fc.constantFrom(false, false, true),
  /** How long the database takes. */
  reserveMs: fc.constantFrom(...RESERVE_MS),
  isBlocked: fc.constantFrom(false, false, false, true),
})
type Arrival = typeof ARRIVAL extends fc.Arbitrary<infer T> ? T : never

export function proveAdmission(histories: number): void {
  test('an admitted attempt ends in time, and none is shed while there is room', () =>
    fc.assert(
      fc.asyncProperty(
        MACHINE,
        fc.array(ARRIVAL, { maxLength: 40 }),
        async ({ threads, lanes, slowness, loginTimeMs }, arrivals) => {
          const roundMs = HASH_MS.slice(0, lanes).map(ms => (ms * slowness) / ROUNDS)
          await play({ threads, roundMs, loginTimeMs }, arrivals)
        },
      ),
      { numRuns: histories, seed: SEED },
    ))
}

async function play(machine: Machine, arrivals: Arrival[]): Promise<void> {
  const simulated = simulateHasher(machine)
  const { hasher, advance, nowMs } = simulated
  const { roundMs, loginTimeMs } = machine
  const queue = createHashQueue(hasher, { cost: COST, loginTimeMs }, nowMs)
  const inTime = roundMs.filter(ms => ROUNDS * ms + MARGIN_MS <= loginTimeMs)
  const lanes = Math.max(1, inTime.length)
  /** On an idle thread an attempt may take this long: as long as beside as many others as are allowed. */
  const longestMs = ROUNDS * (roundMs[lanes - 1] ?? 0)
  /** In the order in which they are to be hashed. */
  let live: ModelAttempt[] = []
  const hashed: Promise<void>[] = []
  const ended: { attempt: ModelAttempt; atMs: number }[] = []
  const remembered = () =>
    ended.filter(({ atMs }) => nowMs() - atMs < REMEMBERED_MS).map(({ attempt }) => attempt)
  let lastShedMs = Number.NEGATIVE_INFINITY

  function end(attempt: ModelAttempt): void {
    live = live.filter(it => it !== attempt)
  }

  function arrive(attempt: ModelAttempt, { client, account, isKnownDevice }: Arrival) {
    const { network } = attempt
    attempt.hasPriority =
      isKnownDevice &&
      [...live, ...remembered()].every(it => !it.hasPriority || it.account !== account) &&
      live.every(it => !it.hasPriority || it.network !== network)
    const running = simulated.running()
    const ranked = modelOrder([...live, attempt], job => running.includes(job), remembered())
    const weaker = ranked.slice(ranked.indexOf(attempt) + 1)
    const place = live.findIndex(it => weaker.includes(it))
    const after = live.toSpliced(place === -1 ? live.length : place, 0, attempt)
    const claim = { network: String(network), client: String(client), account: String(account) }
    const slot = queue.admit({ ...claim, isKnownDevice }, attempt.finishByMs)
    // In this history, such an attempt does not come again.
    if (slot === 'undecided') return null
    if (slot) live = after
    else {
      assert.ok(!hasRoom(attempt, after))
      lastShedMs = nowMs()
    }
    return slot
  }

  async function hash(slot: HashSlot, attempt: ModelAttempt): Promise<void> {
    const beganMs = nowMs()
    const digest = await slot.run(attempt.finishByMs, attempt.job)
    end(attempt)
    if (!digest) return
    ended.push({ attempt, atMs: nowMs() })
    // A lane may have been idle while an attempt that was expected in it was reserved.
    const lateMs = TOLERANCE_MS + Math.max(...RESERVE_MS)
    const allowedMs = Math.max(attempt.finishByMs - MARGIN_AFTER_MS, beganMs + longestMs)
    assert.ok(nowMs() <= allowedMs + lateMs, `${nowMs()} > ${allowedMs} + ${lateMs}`)
  }

  /** True if the newcomer could be hashed in time without making another one late. */
  function hasRoom(newcomer: ModelAttempt, withNewcomer: ModelAttempt[]): boolean {
    const isShedding = nowMs() - lastShedMs < SHEDDING_MS
    const ownEndMs = endsOf(withNewcomer, isShedding).get(newcomer) ?? 0
    if (ownEndMs + TOLERANCE_MS > newcomer.finishByMs - nowMs() - MARGIN_MS) return false
    const [before, after] = [endsOf(live), endsOf(withNewcomer)]
    return live.every(attempt => {
      const inTimeMs = attempt.finishByMs - nowMs() - MARGIN_AFTER_MS
      const limitMs = Math.max(inTimeMs, before.get(attempt) ?? 0)
      return (after.get(attempt) ?? 0) + TOLERANCE_MS <= limitMs
    })
  }

  function endsOf(attempts: ModelAttempt[], areAllLanesBusy = false): Map<ModelAttempt, number> {
    const attemptOf = new Map(attempts.map(attempt => [attempt.job, attempt]))
    const threads = simulated.lanes().map(thread =>
      thread.flatMap(({ job, left }) => {
        const attempt = attemptOf.get(job)
        return attempt ? [{ attempt, left }] : []
      }),
    )
    const running = threads.flat().map(({ attempt }) => attempt)
    const waiting = attempts.filter(attempt => !running.includes(attempt))
    const ends = new Map<ModelAttempt, number>()
    for (let ms = 0; ends.size < attempts.length; ms += STEP_MS) {
      for (let next = waiting[0]; next; next = waiting[0]) {
        const staying = threads.map(thread => thread.filter(it => it.left > ROUNDS / 20).length)
        const thread = threads[staying.indexOf(Math.min(...staying))]
        if (!thread || thread.length >= lanes) break
        thread.push({ attempt: next, left: ROUNDS })
        waiting.shift()
      }
      for (const [index, thread] of threads.entries()) {
        const neighbours = areAllLanesBusy ? Math.max(lanes, thread.length) : thread.length
        const rounds = STEP_MS / (roundMs[neighbours - 1] ?? Number.POSITIVE_INFINITY)
        for (const hash of thread) {
          hash.left -= rounds
          if (hash.left <= 0) ends.set(hash.attempt, ms + STEP_MS)
        }
        threads[index] = thread.filter(({ left }) => left > 0)
      }
    }
    return ends
  }

  let dueMs = 0
  const steps = arrivals.flatMap(arrival => {
    const { client, account, afterMs, reserveMs, isBlocked } = arrival
    dueMs += afterMs
    const nothing = Buffer.alloc(0)
    const attempt: ModelAttempt = {
      ...{ network: Math.floor(client / CLIENTS_OF_NETWORK), client, account },
      ...{ hasPriority: false, finishByMs: dueMs + loginTimeMs },
      job: { password: nothing, salt: nothing, rounds: ROUNDS, totalRounds: ROUNDS },
    }
    let slot: HashSlot | null = null
    function use(): void {
      if (slot && isBlocked) {
        slot.release()
        end(attempt)
      } else if (slot) hashed.push(hash(slot, attempt))
    }
    return [
      {
        atMs: dueMs,
        act: () => {
          slot = arrive(attempt, arrival)
        },
      },
      { atMs: dueMs + reserveMs, act: use },
    ]
  })
  for (const { atMs, act } of steps.toSorted((a, b) => a.atMs - b.atMs)) {
    await advance(atMs - nowMs())
    act()
    await settled()
  }
  await advance(10_000)
  await Promise.all(hashed)
  assert.equal(live.length, 0)
}

const LEVELS: ((attempt: ModelAttempt) => string)[] = [
  ({ network }) => `network ${network}`,
  ({ client }) => `client ${client}`,
  ({ client, account }) => `account ${account} of ${client}`,
]

/** The attempts that wait, one after the other. */
function modelOrder(
  attempts: ModelAttempt[],
  isRunning: (job: HashJob) => boolean,
  remembered: ModelAttempt[],
): ModelAttempt[] {
  const waiting = attempts.filter(({ job }) => !isRunning(job))
  const had = [...remembered, ...attempts.filter(({ job }) => isRunning(job))]
  const ordered: ModelAttempt[] = []
  while (waiting.length > 0) {
    const priority = waiting.filter(({ hasPriority }) => hasPriority)
    const next = nextOf(priority.length > 0 ? priority : waiting, had, LEVELS)
    if (!next) break
    waiting.splice(waiting.indexOf(next), 1)
    had.push(next)
    ordered.push(next)
  }
  return ordered
}

/** Of the network that has had the fewest turns, of its client with the fewest, and of its account with the fewest. */
function nextOf(
  waiting: ModelAttempt[],
  had: ModelAttempt[],
  [nameOf, ...inner]: typeof LEVELS,
): ModelAttempt | undefined {
  if (!nameOf) return waiting[0]
  const turnsOf = (attempt: ModelAttempt) => had.filter(it => nameOf(it) === nameOf(attempt)).length
  const groups = Object.values(Object.groupBy(waiting, nameOf))
  const nextOfEach = groups.map(group => nextOf(group ?? [], had, inner))
  return waiting
    .filter(attempt => nextOfEach.includes(attempt))
    .toSorted((a, b) => turnsOf(a) - turnsOf(b))[0]
}
