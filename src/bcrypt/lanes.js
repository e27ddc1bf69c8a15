// Several hashes at a time in one thread. Jobs join and leave between chunks of about 2 ms. In plain JavaScript,
// because the worker imports it.
import { KEY_AT, LANE_BYTES, MAX_LANES, OUTPUT_AT, SALT_AT } from './memory.js'

/**
 * @typedef {object} Job
 * @property {number} id Unique in the process.
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
 * @typedef {object} Speed
 * @property {Float64Array} fastestMs The fastest round of any thread with one lane, with two and so on.
 * @property {Float64Array} slowdown One value: by what factor the latest rounds of this thread were slower than these.
 *
 * @typedef {'locals' | 'constants'} KernelName How the functions address the memory, see README.md.
 *
 * @typedef {{
 *   memory: WebAssembly.Memory
 *   begin: (lane: number) => void
 *   finish: (lane: number) => void
 *   [rounds: `${KernelName}${number}`]: (count: number, ...lanes: number[]) => void
 * }} Kernel
 */

const LANES = [...Array(MAX_LANES).keys()]
export const KERNEL_NAMES = /** @type {KernelName[]} */ (['locals', 'constants'])
const CHUNK_MS = 2
/**
 * One of so many chunks is a trial: it uses the numbers of lanes in turn, so that a time that other load disturbed
 * is corrected. Some busy lanes pause meanwhile, or free ones compute a hash of nothing.
 */
const TRIAL_EVERY = 128
const SHORTEST_MS = 0.001
const KEY_BYTES = 72
const DIGEST_BYTES = 23
/**
 * How much a whole chunk changes the two averages of the slowdown: at 2 ms per chunk one follows within 0.1 s,
 * the other within 0.5 s. The higher one counts, so that more load is known soon, and a short pause of it does
 * not look like its end.
 */
const NEWEST_SHARES = [0.02, 0.004]

/**
 * Numbers that threads share, without locks.
 * @param {number} length
 * @param {number} value
 */
export function shareNumbers(length, value) {
  const memory = new SharedArrayBuffer(length * Float64Array.BYTES_PER_ELEMENT)
  return new Float64Array(memory).fill(value)
}

/** @param {WebAssembly.Module} module */
export function instantiate(module) {
  return /** @type {Kernel} */ (new WebAssembly.Instance(module).exports)
}

/**
 * The function that computes rounds of the first lanes.
 * @param {Kernel} kernel
 * @param {KernelName} name
 * @param {number} lanes How many.
 */
export function roundsOf(kernel, name, lanes) {
  const rounds = kernel[`${name}${lanes}`]
  // The function ignores the numbers that it does not need.
  return (/** @type {number} */ count) => rounds?.(count, ...LANES)
}

/**
 * @param {Kernel} kernel
 * @param {KernelName} name
 * @param {Speed} speed What is measured.
 * @param {number} chunkMs
 */
export function createLanes(kernel, name, { fastestMs, slowdown }, chunkMs = CHUNK_MS) {
  const memory = new Uint8Array(kernel.memory.buffer)
  /** @type {Lane[]} The busy lanes, which are always the first ones. */
  const busy = []
  let slowdowns = NEWEST_SHARES.map(() => 1)
  let chunks = 0

  /**
   * The last busy lane moves into the place of this one, so that the first lanes stay the busy ones.
   * @param {number} lane
   */
  function leave(lane) {
    const last = busy.length - 1
    busy.copyWithin(lane, last).pop()
    memory.copyWithin(baseOf(lane), baseOf(last), baseOf(last + 1))
    memory.fill(0, baseOf(last), baseOf(last + 1))
  }

  /**
   * Runs as many rounds of the first lanes as fit into a chunk, but no more than one of them needs. Returns how many.
   * @param {number} lanes
   */
  function runRounds(lanes) {
    const fastest = fastestMs[lanes - 1] ?? 0
    const wholeCount = Math.max(1, Math.round(chunkMs / (fastest * (slowdown[0] ?? 1))))
    let count = wholeCount
    for (const { job, roundsDone, digest } of busy.slice(0, lanes)) {
      count = Math.min(count, (digest ? job.totalRounds : job.rounds) - roundsDone)
    }
    const run = roundsOf(kernel, name, lanes)
    const beganMs = performance.now()
    run(count)
    // A clock may be too coarse to see a short chunk.
    const roundMs = Math.max(performance.now() - beganMs, SHORTEST_MS) / count
    // A value that another thread writes meanwhile may be lost: it will be measured again.
    if (roundMs < fastest) fastestMs[lanes - 1] = roundMs
    slowdowns = slowdowns.map((before, i) => {
      const share = (NEWEST_SHARES[i] ?? 0) * (count / wholeCount)
      return before + (Math.max(1, roundMs / fastest) - before) * share
    })
    slowdown[0] = Math.max(...slowdowns)
    return count
  }

  /**
   * Repeats the bytes until 18 words are full, as bcrypt does. bcrypt's words are big-endian, those of the
   * memory are little-endian.
   * @param {number} at
   * @param {Uint8Array} bytes
   */
  function writeWords(at, bytes) {
    for (let i = 0; i < KEY_BYTES; i++) memory[at + (i ^ 3)] = bytes[i % bytes.length] ?? 0
  }

  /** @param {number} lane */
  function readDigest(lane) {
    kernel.finish(lane)
    const at = baseOf(lane) + OUTPUT_AT
    return Uint8Array.from({ length: DIGEST_BYTES }, (_, i) => memory[at + (i ^ 3)] ?? 0)
  }

  return {
    isBusy: () => busy.length > 0,
    /** @param {Job} job */
    join(job) {
      if (busy.length === MAX_LANES) throw new Error('no lane is free')
      const lane = busy.length
      writeWords(baseOf(lane) + KEY_AT, job.key)
      writeWords(baseOf(lane) + SALT_AT, job.salt)
      job.key.fill(0)
      kernel.begin(lane)
      busy.push({ job, roundsDone: 0, digest: null })
    },
    /**
     * Removes the job, if it has not ended.
     * @param {number} id
     */
    cancel(id) {
      const lane = busy.findIndex(({ job }) => job.id === id)
      if (lane !== -1) leave(lane)
    },
    /** Some rounds of the busy lanes; the jobs that these rounds completed. There must be a busy lane. */
    runChunk() {
      chunks++
      const isTrial = chunks % TRIAL_EVERY === 0
      const lanes = isTrial ? 1 + ((chunks / TRIAL_EVERY) % MAX_LANES) : busy.length
      for (let lane = busy.length; lane < lanes; lane++) kernel.begin(lane)
      const count = runRounds(lanes)
      memory.fill(0, baseOf(busy.length), baseOf(lanes))

      /** @type {Done[]} */
      const done = []
      // The last one first, so that a lane that moves into a free place has had its turn.
      for (const [i, lane] of [...busy.slice(0, lanes).entries()].reverse()) {
        const { job } = lane
        lane.roundsDone += count
        job.roundsLeft[0] = job.totalRounds - lane.roundsDone
        if (lane.roundsDone === job.rounds) lane.digest = readDigest(i)
        if (!lane.digest || lane.roundsDone < job.totalRounds) continue
        leave(i)
        done.push({ id: job.id, digest: lane.digest })
      }
      return done
    },
  }
}

/** @param {number} lane */
function baseOf(lane) {
  return lane * LANE_BYTES
}
