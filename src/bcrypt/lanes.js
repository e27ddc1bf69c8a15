// Up to three hashes at a time in one thread. Jobs join and leave between chunks of about 2 ms. In plain
// JavaScript, because the worker imports it.
import { KEY_AT, LANE_BYTES, OUTPUT_AT, SALT_AT } from './memory.js'

/**
 * @typedef {object} Job
 * @property {number} id Unique in the process.
 * @property {number} lane A free one: its region of the kernel's memory is the job's.
 * @property {Uint8Array} key The password and a NUL. Overwritten with zeros when the job joins.
 * @property {Uint8Array} salt
 * @property {number} rounds The digest is taken after these.
 * @property {number} totalRounds
 * @property {Float64Array} roundsLeft One value, which the main thread reads too.
 *
 * @typedef {{ id: number, digest: Uint8Array }} Done
 *
 * @typedef {{ job: Job, roundsDone: number, digest: Uint8Array | null }} Lane
 *
 * @typedef {{
 *   memory: WebAssembly.Memory
 *   begin: (base: number) => void
 *   rounds1: (count: number) => void
 *   rounds2: (count: number) => void
 *   rounds3: (count: number) => void
 *   finish: (base: number) => void
 *   base0: { value: number }
 *   base1: { value: number }
 *   base2: { value: number }
 * }} Kernel
 */

const CHUNK_MS = 2
const SHORTEST_MS = 0.001
const KEY_BYTES = 72
const DIGEST_BYTES = 23
/**
 * How much a whole chunk changes the two averages of the slowdown: at 2 ms per chunk one follows within 0.1 s,
 * the other within 0.5 s. The higher one counts, so that more load is known soon, and a short pause of it does
 * not look like its end.
 */
const NEWEST_SHARES = [0.02, 0.004]

/** @param {WebAssembly.Module} module */
export function instantiate(module) {
  return /** @type {Kernel} */ (new WebAssembly.Instance(module).exports)
}

/**
 * @param {Kernel} kernel
 * @param {Float64Array} times What is measured. First the slowdown: how many times as long as the fastest
 *   rounds the latest ones took. Then the fastest round with one busy lane, with two and with three.
 */
export function createLanes(kernel, times) {
  const memory = new DataView(kernel.memory.buffer)
  const bases = [kernel.base0, kernel.base1, kernel.base2]
  const functions = [kernel.rounds1, kernel.rounds2, kernel.rounds3]
  /** @type {Map<number, Lane>} The busy lanes by the ids of their jobs. */
  const busy = new Map()
  let slowdowns = NEWEST_SHARES.map(() => 1)

  /** @param {number} id */
  function leave(id) {
    const lane = busy.get(id)
    if (!lane) return
    new Uint8Array(kernel.memory.buffer, baseOf(lane), LANE_BYTES).fill(0)
    busy.delete(id)
  }

  /** @param {number} count */
  function runRounds(count) {
    const regions = Array.from(busy.values(), baseOf)
    for (const [i, base] of bases.entries()) base.value = regions[i] ?? 0
    functions[regions.length - 1]?.(count)
  }

  /**
   * @param {number} count
   * @param {number} wholeCount
   * @param {number} tookMs
   */
  function measure(count, wholeCount, tookMs) {
    // A clock may be too coarse to see a short chunk.
    const roundMs = Math.max(tookMs, SHORTEST_MS) / count
    const fastestMs = Math.min(times[busy.size] ?? 0, roundMs)
    times[busy.size] = fastestMs
    slowdowns = slowdowns.map((slowdown, i) => {
      const share = (NEWEST_SHARES[i] ?? 0) * (count / wholeCount)
      return slowdown + (roundMs / fastestMs - slowdown) * share
    })
    times[0] = Math.max(...slowdowns)
  }

  /**
   * Repeats the bytes until 18 words are full, as bcrypt does. bcrypt's words are big-endian, those of the
   * memory are little-endian.
   * @param {number} at
   * @param {Uint8Array} bytes
   */
  function writeWords(at, bytes) {
    for (let i = 0; i < KEY_BYTES; i++) memory.setUint8(at + (i ^ 3), bytes[i % bytes.length] ?? 0)
  }

  /** @param {number} base */
  function readDigest(base) {
    kernel.finish(base)
    return Uint8Array.from({ length: DIGEST_BYTES }, (_, i) =>
      memory.getUint8(base + OUTPUT_AT + (i ^ 3)),
    )
  }

  return {
    isBusy: () => busy.size > 0,
    /** @param {Job} job */
    join(job) {
      for (const other of busy.values()) {
        if (other.job.lane === job.lane) throw new Error(`lane ${job.lane} is occupied`)
      }
      const lane = { job, roundsDone: 0, digest: null }
      const base = baseOf(lane)
      writeWords(base + KEY_AT, job.key)
      writeWords(base + SALT_AT, job.salt)
      job.key.fill(0)
      kernel.begin(base)
      busy.set(job.id, lane)
    },
    /** Removes the job, if it has not ended, and overwrites its region with zeros. */
    leave,
    /** Some rounds of all busy lanes; the jobs that these rounds completed. There must be a busy lane. */
    runChunk() {
      const expectedMs = (times[0] ?? 1) * (times[busy.size] ?? 0)
      const wholeCount = Math.max(1, Math.round(CHUNK_MS / expectedMs))
      let count = wholeCount
      for (const { job, roundsDone, digest } of busy.values()) {
        count = Math.min(count, (digest ? job.totalRounds : job.rounds) - roundsDone)
      }
      const beganMs = performance.now()
      runRounds(count)
      measure(count, wholeCount, performance.now() - beganMs)

      /** @type {Done[]} */
      const done = []
      for (const lane of [...busy.values()]) {
        const { job } = lane
        lane.roundsDone += count
        job.roundsLeft[0] = job.totalRounds - lane.roundsDone
        if (lane.roundsDone === job.rounds) lane.digest = readDigest(baseOf(lane))
        if (!lane.digest || lane.roundsDone < job.totalRounds) continue
        leave(job.id)
        done.push({ id: job.id, digest: lane.digest })
      }
      return done
    },
  }
}

/** @param {Lane} lane */
function baseOf({ job }) {
  return job.lane * LANE_BYTES
}
