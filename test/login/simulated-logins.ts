// Logins in simulated time: the real hash queue and the real pace, with a simulated hasher, and callers that
// wait in the same time. Every run with the same seed is the same.
import { setImmediate as drained } from 'node:timers/promises'
import { createRandom } from '../../bench/statistics.ts'
import { createHashQueue } from '../../src/login/hash-queue.ts'
import { createPace } from '../../src/login/pace.ts'
import { toCountedClient, turnNetwork } from '../../src/system/client-group.ts'
import { CHUNK_MS, simulateHasher } from './simulated-hasher.ts'

type SimulatedAttempt = {
  address: string
  account: string
  isKnownDevice: boolean
  /** A change of the password, which is a second hash. */
  isChange?: boolean
}

const COST = 12
const ROUNDS = 2 ** COST
/** How long a hash takes alone, beside another, and beside two. */
const HASH_MS = [305, 370, 472]
const THREADS = 2
const LOGIN_TIME_MS = 1_000
/** A reservation, and the settling after the hash. */
const DATABASE_MS = 2
/** The time of a core that an answer takes from the hashes. */
const ANSWER_MS = 0.5
const SECOND_MS = 1_000

/** Hashes take `slowness` times as long as usual. */
export function simulateLogins(seed: number, slowness: number) {
  const roundMs = HASH_MS.map(ms => (slowness * ms) / ROUNDS)
  const { hasher, nowMs, advance, setRoundMs } = simulateHasher({ threads: THREADS, roundMs })
  const queue = createHashQueue(hasher, { cost: COST, loginTimeMs: LOGIN_TIME_MS }, nowMs)
  let timers: { dueMs: number; wake: () => void }[] = []
  const sleep = (ms: number) =>
    new Promise<void>(wake => timers.push({ dueMs: nowMs() + ms, wake }))
  const pace = createPace(nowMs, sleep)
  /** The moments of the answers of the last second. */
  let answers: number[] = []

  /** Does what `login` in src/login/login.ts does; false if the attempt is shed. */
  async function attempt(attempted: SimulatedAttempt): Promise<boolean> {
    const { address, account, isKnownDevice, isChange } = attempted
    const counted = toCountedClient(address)
    if (!counted) throw new Error(`not an address: ${address}`)
    const network = turnNetwork(counted)
    pace.arrive(network)
    const claim = { network, client: counted.group, account, isKnownDevice }
    const finishByMs = nowMs() + LOGIN_TIME_MS
    let slot = queue.admit(claim, finishByMs)
    while (slot === 'undecided') {
      await queue.nextDecision()
      slot = queue.admit(claim, finishByMs)
    }
    await sleep(DATABASE_MS)
    let digest = await slot?.run(finishByMs, toJob())
    if (digest && isChange) digest = await slot?.run(finishByMs + LOGIN_TIME_MS, toJob())
    if (!digest) await pace.beforeRefusal(network)
    else await sleep(DATABASE_MS)
    answers.push(nowMs())
    return Boolean(digest)
  }

  /** Lets time pass until the promise is resolved. */
  async function runUntil<T>(ended: Promise<T>): Promise<T> {
    let isEnded = false
    void ended.then(() => {
      isEnded = true
    })
    for (await drained(); !isEnded; await drained()) {
      const nextMs = Math.min(nowMs() + CHUNK_MS, ...timers.map(({ dueMs }) => dueMs))
      answers = answers.filter(ms => ms > nowMs() - SECOND_MS)
      const share = (answers.length * ANSWER_MS) / SECOND_MS / THREADS
      setRoundMs(roundMs.map(ms => ms / (1 - share)))
      await advance(Math.max(0, nextMs - nowMs()))
      const due = timers.filter(({ dueMs }) => dueMs <= nowMs())
      timers = timers.filter(({ dueMs }) => dueMs > nowMs())
      for (const { wake } of due.toSorted((a, b) => a.dueMs - b.dueMs)) wake()
    }
    return ended
  }

  return { attempt, sleep, nowMs, runUntil, random: createRandom(seed) }
}

function toJob() {
  const nothing = Buffer.alloc(0)
  return { password: nothing, salt: nothing, rounds: ROUNDS, totalRounds: ROUNDS }
}
