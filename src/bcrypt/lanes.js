// Up to three hashes at a time in one thread. Jobs join and leave between chunks of about 2 ms. In plain
// JavaScript, because the worker imports it.
import { KEY_AT, LANE_BYTES, MAX_LANES, OUTPUT_AT, SALT_AT } from './memory.js'

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
 * @typedef {'locals' | 'constants'} KernelName How the functions address the memory, see README.md.
 *
 * @typedef {{
 *   memory: WebAssembly.Memory
 *   begin: (base: number) => void
 *   finish: (base: number) => void
 *   [rounds: `${KernelName}${number}`]: (count: number, ...lanes: number[]) => void
 * }} Kernel
 */

export const KERNEL_NAMES = /** @type {KernelName[]} */ (['locals', 'constants'])
const CHUNK_MS = 2
/**
 * One of so many chunks is a trial: it uses the numbers of lanes in turn, so that a time that other load disturbed
 * is corrected. A trial takes less than a millisecond longer than another chunk.
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
 * The speed of a thread, in memory that the main thread reads too. First the slowdown: how many times as long as the
 * fastest rounds the latest ones took. Then the fastest round with one lane, with two and with three, in milliseconds.
 */
export function createTimes() {
  const memory = new SharedArrayBuffer((1 + MAX_LANES) * Float64Array.BYTES_PER_ELEMENT)
  const times = new Float64Array(memory).fill(Number.POSITIVE_INFINITY)
  times[0] = 1
  return times
}

/** @param {WebAssembly.Module} module */
export function instantiate(module) {
  return /** @type {Kernel} */ (new WebAssembly.Instance(module).exports)
}

/**
 * The function that computes rounds of these lanes.
 * @param {Kernel} kernel
 * @param {KernelName} name
 * @param {number[]} lanes
 */
export function roundsOf(kernel, name, lanes) {
  const bits = lanes.reduce((sum, lane) => sum + (1 << lane), 0)
  const rounds = kernel[`${name}${name === 'locals' ? lanes.length : bits}`]
  return (/** @type {number} */ count) => rounds?.(count, ...lanes)
}

/**
 * @param {Kernel} kernel
 * @param {KernelName} name
 * @param {Float64Array} times What is measured, see `createTimes`.
 * @param {number} chunkMs
 */
export function createLanes(kernel, name, times, chunkMs = CHUNK_MS) {
  const memory = new DataView(kernel.memory.buffer)
  /** @type {Map<number, Lane>} The busy lanes by the ids of their jobs. */
  const busy = new Map()
  let slowdowns = NEWEST_SHARES.map(() => 1)
  let chunks = 0

  /** @param {number} id */
  function leave(id) {
    const lane = busy.get(id)
    if (!lane) return
    clear(lane.job.lane)
    busy.delete(id)
  }

  /** @param {number} lane */
  function clear(lane) {
    new Uint8Array(kernel.memory.buffer, baseOf(lane), LANE_BYTES).fill(0)
  }

  /** Rounds of the busy lanes, and of free ones if there are not enough; how many rounds. */
  function runTrial() {
    const size = 1 + ((chunks / TRIAL_EVERY) % MAX_LANES)
    const lanes = busyLanes()
    const free = [...Array(MAX_LANES).keys()].filter(lane => !lanes.includes(lane))
    const added = free.slice(0, Math.max(0, size - lanes.length))
    for (const lane of added) kernel.begin(baseOf(lane))
    const count = runRounds([...lanes, ...added])
    for (const lane of added) clear(lane)
    return count
  }

  /**
   * Runs as many rounds as fit into a chunk, but no more than a busy lane needs. Returns how many.
   * @param {number[]} lanes
   */
  function runRounds(lanes) {
    const [slowdown = 1] = times
    const fastestMs = times[lanes.length] ?? 0
    const wholeCount = Math.max(1, Math.round(chunkMs / (slowdown * fastestMs)))
    let count = wholeCount
    for (const { job, roundsDone, digest } of busy.values()) {
      count = Math.min(count, (digest ? job.totalRounds : job.rounds) - roundsDone)
    }
    const run = roundsOf(kernel, name, lanes)
    const beganMs = performance.now()
    run(count)
    // A clock may be too coarse to see a short chunk.
    const roundMs = Math.max(performance.now() - beganMs, SHORTEST_MS) / count
    const bestMs = Math.min(fastestMs, roundMs)
    times[lanes.length] = bestMs
    slowdowns = slowdowns.map((slowdown, i) => {
      const share = (NEWEST_SHARES[i] ?? 0) * (count / wholeCount)
      return slowdown + (roundMs / bestMs - slowdown) * share
    })
    times[0] = Math.max(...slowdowns)
    return count
  }

  function busyLanes() {
    return Array.from(busy.values(), ({ job }) => job.lane)
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
      if (busyLanes().includes(job.lane)) throw new Error(`lane ${job.lane} is occupied`)
      const base = baseOf(job.lane)
      writeWords(base + KEY_AT, job.key)
      writeWords(base + SALT_AT, job.salt)
      job.key.fill(0)
      kernel.begin(base)
      busy.set(job.id, { job, roundsDone: 0, digest: null })
    },
    /** Removes the job, if it has not ended, and overwrites its region with zeros. */
    leave,
    /** Some rounds of all busy lanes; the jobs that these rounds completed. There must be a busy lane. */
    runChunk() {
      chunks++
      const count = chunks % TRIAL_EVERY === 0 ? runTrial() : runRounds(busyLanes())

      /** @type {Done[]} */
      const done = []
      for (const lane of [...busy.values()]) {
        const { job } = lane
        lane.roundsDone += count
        job.roundsLeft[0] = job.totalRounds - lane.roundsDone
        if (lane.roundsDone === job.rounds) lane.digest = readDigest(baseOf(job.lane))
        if (!lane.digest || lane.roundsDone < job.totalRounds) continue
        leave(job.id)
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
