// Random histories of attempts, played on the hash queue with a simulated hasher: an attempt that is hashed ends
// in time, none is refused while a lane is free, and none is forgotten.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { createHashQueue, type HashSlot, MARGIN_MS } from '../../src/login/hash-queue.ts'
import { CHUNK_MS, settled, simulateHasher } from './simulated-hasher.ts'

/** ADMISSION_SEED plays other histories. */
const SEED = Number(process.env.ADMISSION_SEED ?? 1)
const COST = 12
const ROUNDS = 2 ** COST
/** How long a hash takes alone, beside another, and beside two. */
const HASH_MS = [305, 370, 472]
/** A hash joins between two chunks. */
const TOLERANCE_MS = 2 * CHUNK_MS
const CLIENTS_OF_NETWORK = 2

type Machine = { threads: number; roundMs: number[]; loginTimeMs: number }

const MACHINE = fc.record({
  threads: fc.integer({ min: 1, max: 3 }),
  lanes: fc.integer({ min: 1, max: 3 }),
  slowness: fc.constantFrom(0.25, 0.5, 1, 1, 2),
  loginTimeMs: fc.constantFrom(500, 1_000, 1_000, 2_000),
})
const ARRIVAL = fc.record({
  afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 400 })),
  client: fc.nat(6),
  account: fc.nat(6),
  isKnownDevice: fc.constantFrom(false, false, true),
  /** How long the database takes. */
  reserveMs: fc.constantFrom(0, 1, 2, 5, 20),
  isBlocked: fc.constantFrom(false, false, false, true),
})
type Arrival = typeof ARRIVAL extends fc.Arbitrary<infer T> ? T : never

export async function proveAdmission(histories: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(
      MACHINE,
      fc.array(ARRIVAL, { maxLength: 40 }),
      async ({ threads, lanes, slowness, loginTimeMs }, arrivals) => {
        const roundMs = HASH_MS.slice(0, lanes).map(ms => (ms * slowness) / ROUNDS)
        await play({ threads, roundMs, loginTimeMs }, arrivals)
      },
    ),
    { numRuns: histories, seed: SEED },
  )
}

async function play(machine: Machine, arrivals: Arrival[]): Promise<void> {
  const { hasher, advance, nowMs, running } = simulateHasher(machine)
  const { threads, roundMs, loginTimeMs } = machine
  const queue = createHashQueue(hasher, { cost: COST, loginTimeMs }, nowMs)
  const inTime = roundMs.filter(ms => ROUNDS * ms + MARGIN_MS <= loginTimeMs)
  const lanes = threads * Math.max(1, inTime.length)
  /** On an idle thread a hash may begin that takes this long, because waiting would not make it faster. */
  const longestMs = ROUNDS * (roundMs[Math.max(1, inTime.length) - 1] ?? 0)
  let holders = 0
  const hashed: Promise<void>[] = []

  let dueMs = 0
  const steps = arrivals.flatMap(({ afterMs, client, account, ...arrival }) => {
    dueMs += afterMs
    const finishByMs = dueMs + loginTimeMs
    let slot: HashSlot | null = null
    function arrive(): void {
      const claim = {
        network: `network ${Math.floor(client / CLIENTS_OF_NETWORK)}`,
        ...{ client: String(client), account: String(account) },
        isKnownDevice: arrival.isKnownDevice,
      }
      slot = queue.admit(claim)
      if (slot) holders++
      else assert.ok(holders >= lanes, `refused beside ${holders} others in ${lanes} lanes`)
    }
    function use(): void {
      if (!slot) return
      if (arrival.isBlocked) {
        slot.release()
        holders--
        return
      }
      const password = Buffer.from('secret')
      const job = { password, salt: Buffer.alloc(0), rounds: ROUNDS, totalRounds: ROUNDS }
      let beganMs = Number.POSITIVE_INFINITY
      const { start } = hasher
      hasher.start = (thread, started) => {
        if (started === job) beganMs = nowMs()
        return start(thread, started)
      }
      hashed.push(
        slot.run(finishByMs, job).then(digest => {
          holders--
          if (!digest) assert.deepEqual(password, Buffer.alloc(password.length))
          const allowedMs = Math.max(finishByMs, beganMs + longestMs) + TOLERANCE_MS
          assert.ok(!digest || nowMs() <= allowedMs, `${nowMs()} > ${allowedMs}`)
        }),
      )
    }
    return [
      { atMs: dueMs, act: arrive },
      { atMs: dueMs + arrival.reserveMs, act: use },
    ]
  })
  for (const { atMs, act } of steps.toSorted((a, b) => a.atMs - b.atMs)) {
    await advance(atMs - nowMs())
    act()
    await settled()
  }
  await advance(10_000)
  await Promise.all(hashed)
  assert.deepEqual([holders, queue.depth(), running().length], [0, 0, 0])
}
