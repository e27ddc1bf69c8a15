// Logins in simulated time: the real hash queue and the real pace, with a simulated hasher, and callers that
// wait in the same time. Every run with the same seed is the same.
import { setImmediate as drained } from 'node:timers/promises'
import { toCountedClient, turnNetwork } from '../src/login/client-group.ts'
import { createHashQueue } from '../src/login/hash-queue.ts'
import { createPace } from '../src/login/pace.ts'
import { CHUNK_MS, simulateHasher } from './simulated-hasher.ts'

export type SimulatedAttempt = { address: string; account: string; isKnownDevice: boolean }

const COST = 12
const ROUNDS = 2 ** COST
/** How long a hash takes alone, beside another, and beside two. */
const HASH_MS = [305, 370, 472]
const THREADS = 2
const LOGIN_TIME_MS = 1_000
/** A reservation, and the settling after the hash. */
const DATABASE_MS = 2

export function simulateLogins(seed: number) {
  const roundMs = HASH_MS.map(ms => ms / ROUNDS)
  const { hasher, nowMs, advance } = simulateHasher({ threads: THREADS, roundMs })
  const queue = createHashQueue(hasher, { cost: COST, loginTimeMs: LOGIN_TIME_MS }, nowMs)
  let timers: { dueMs: number; wake: () => void }[] = []
  const sleep = (ms: number) =>
    new Promise<void>(wake => timers.push({ dueMs: nowMs() + ms, wake }))
  const pace = createPace(nowMs, sleep)

  /** Does what `login` in src/login/login.ts does; false if the attempt is shed. */
  async function attempt({ address, account, isKnownDevice }: SimulatedAttempt): Promise<boolean> {
    const counted = toCountedClient(address)
    if (!counted) throw new Error(`not an address: ${address}`)
    const paced = counted.network ?? counted.group
    pace.arrive(paced)
    const claim = {
      ...{ network: turnNetwork(counted), client: counted.group, account, isKnownDevice },
    }
    const finishByMs = nowMs() + LOGIN_TIME_MS
    let slot = queue.admit(claim, finishByMs)
    while (slot === 'undecided') {
      await queue.nextDecision()
      slot = queue.admit(claim, finishByMs)
    }
    await sleep(DATABASE_MS)
    const digest = await slot?.run(finishByMs, {
      ...{ password: Buffer.alloc(0), salt: Buffer.alloc(0), rounds: ROUNDS, totalRounds: ROUNDS },
    })
    if (!digest) await pace.beforeRefusal(paced)
    else await sleep(DATABASE_MS)
    return Boolean(digest)
  }

  /** Lets time pass until the promise is resolved. */
  async function runUntil(ended: Promise<unknown>): Promise<void> {
    let isEnded = false
    void ended.then(() => {
      isEnded = true
    })
    for (await drained(); !isEnded; await drained()) {
      const nextMs = Math.min(nowMs() + CHUNK_MS, ...timers.map(({ dueMs }) => dueMs))
      await advance(Math.max(0, nextMs - nowMs()))
      const due = timers.filter(({ dueMs }) => dueMs <= nowMs())
      timers = timers.filter(({ dueMs }) => dueMs > nowMs())
      for (const { wake } of due.toSorted((a, b) => a.dueMs - b.dueMs)) wake()
    }
  }

  return { attempt, sleep, nowMs, runUntil, random: randomNumbers(seed) }
}

/** Numbers from 0 to 1 that look random (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
