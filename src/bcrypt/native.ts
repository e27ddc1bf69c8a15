// The engine `native`: npm bcrypt in libuv's thread pool, one hash per thread at a time.
import bcrypt from 'bcrypt'
import { decodeBase64, encodeBase64 } from './hash-text.ts'
import type { Hasher, HashJob } from './hasher.ts'

const DIGEST_CHARACTERS = 31
/** What a hash does besides its rounds is then a few percent of it. */
const MEASURED_ROUNDS = 2 ** 6
const MEASUREMENTS = 3
// How much one measured hash changes the estimate: quickly down, slowly up. A long measurement may only
// mean that the event loop noticed the end of the hash late.
const SHARE_WHEN_FASTER = 0.5
const LARGEST_STEP_UP = 0.05

export async function openNative(threads: number): Promise<Hasher> {
  let roundMs = await measureRound(threads)

  async function run({ password, salt, rounds, totalRounds }: HashJob, beganMs: number) {
    const hashed = hash(password, salt, rounds)
    // bcrypt has copied it.
    password.fill(0)
    const digest = decodeBase64((await hashed).slice(-DIGEST_CHARACTERS))
    for (const owed of owedRounds(rounds, totalRounds)) await hash(Buffer.alloc(0), salt, owed)
    const measuredMs = (performance.now() - beganMs) / totalRounds
    if (measuredMs < roundMs) roundMs += (measuredMs - roundMs) * SHARE_WHEN_FASTER
    else roundMs = Math.min(measuredMs, roundMs * (1 + LARGEST_STEP_UP))
    return digest
  }

  return {
    name: 'native',
    threads,
    roundMs: () => [roundMs],
    start(thread, job) {
      const beganMs = performance.now()
      return {
        thread,
        roundsLeft: () => Math.max(0, job.totalRounds - (performance.now() - beganMs) / roundMs),
        digest: run(job, beganMs),
        cancel: null,
      }
    },
    async close() {},
  }
}

/** Hashes to add to a cheaper one: 2^c + (2^c + 2^(c+1) + … + 2^(C-1)) = 2^C. */
export function owedRounds(rounds: number, totalRounds: number): number[] {
  const owed = []
  for (let done = rounds; done < totalRounds; done *= 2) owed.push(done)
  return owed
}

/** The shortest of a few measurements, because the start of the process delays some of them. */
async function measureRound(threads: number): Promise<number> {
  let bestMs = Number.POSITIVE_INFINITY
  for (let i = 0; i < MEASUREMENTS; i++) {
    const beganMs = performance.now()
    // All threads, because two threads may share a core.
    const hashes = Array.from({ length: threads }, async () => {
      await hash(Buffer.alloc(0), Buffer.alloc(16), MEASURED_ROUNDS)
      bestMs = Math.min(bestMs, performance.now() - beganMs)
    })
    await Promise.all(hashes)
  }
  return bestMs / MEASURED_ROUNDS
}

function hash(password: Buffer, salt: Buffer, rounds: number): Promise<string> {
  const cost = String(Math.log2(rounds)).padStart(2, '0')
  return bcrypt.hash(password, `$2b$${cost}$${encodeBase64(salt)}`)
}
