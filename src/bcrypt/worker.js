// A thread that computes up to three hashes at a time with the kernel. Jobs join and leave its lanes between
// chunks of about 2 ms. In plain JavaScript, because a worker that runs TypeScript needs 22 MiB more.
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { KEY_AT, LANE_BYTES, MAX_LANES, OUTPUT_AT, SALT_AT } from './memory.js'

/**
 * @typedef {object} Job
 * @property {number} id
 * @property {Uint8Array} key The password, followed by a NUL.
 * @property {Uint8Array} salt
 * @property {number} rounds The digest is taken after these; a hash of cost c has 2^c.
 * @property {number} totalRounds Further rounds without a result, so that a cheaper hash takes as long.
 *
 * @typedef {object} Done
 * @property {number} id
 * @property {Uint8Array} digest
 * @property {number[]} roundMs How long one round of all lanes takes, by the number of busy lanes.
 *
 * @typedef {object} Lane
 * @property {number} base Where its region of the kernel's memory begins.
 * @property {number} roundsDone
 * @property {Uint8Array | null} digest
 * @property {Job} job
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
const KEY_WORDS = 18
const DIGEST_BYTES = 23
/** How much the newest measurement changes the estimate: at a chunk per 2 ms it follows within 0.1 s. */
const NEWEST_SHARE = 0.05

const REGIONS = Array.from({ length: MAX_LANES }, (_, lane) => lane * LANE_BYTES)

const port = parentPort
if (!port) throw new Error('to be run as a worker')
const kernel = /** @type {Kernel} */ (new WebAssembly.Instance(workerData.module).exports)
const memory = new DataView(kernel.memory.buffer)
const bases = [kernel.base0, kernel.base1, kernel.base2]
const functions = [kernel.rounds1, kernel.rounds2, kernel.rounds3]
const roundMs = [0]
for (let lanes = 1; lanes <= MAX_LANES; lanes++) roundMs.push(measure(lanes))

const freeBases = [...REGIONS]
/** @type {Lane[]} */
const busy = []

port.on('message', (/** @type {Job} */ job) => {
  join(job)
  // While hashes are computed, this function does not return: it asks for new jobs between chunks.
  while (busy.length > 0) {
    runChunk()
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) {
      join(next.message)
    }
  }
})
port.postMessage({ roundMs })

/** @param {Job} job */
function join(job) {
  const base = freeBases.pop()
  if (base === undefined) throw new Error('more jobs than lanes')
  writeWords(base + KEY_AT, job.key)
  writeWords(base + SALT_AT, job.salt)
  job.key.fill(0)
  kernel.begin(base)
  busy.push({ base, roundsDone: 0, digest: null, job })
}

function runChunk() {
  const lanes = busy.length
  const msEach = roundMs[lanes] ?? CHUNK_MS
  let count = Math.max(1, Math.round(CHUNK_MS / msEach))
  for (const lane of busy) {
    const { rounds, totalRounds } = lane.job
    count = Math.min(count, (lane.digest ? totalRounds : rounds) - lane.roundsDone)
  }
  const beganMs = performance.now()
  runRounds(
    busy.map(lane => lane.base),
    count,
  )
  roundMs[lanes] = msEach + ((performance.now() - beganMs) / count - msEach) * NEWEST_SHARE
  for (const lane of [...busy]) {
    lane.roundsDone += count
    if (!lane.digest && lane.roundsDone === lane.job.rounds) lane.digest = readDigest(lane.base)
    if (lane.digest && lane.roundsDone === lane.job.totalRounds) leave(lane, lane.digest)
  }
}

/**
 * @param {Lane} lane
 * @param {Uint8Array} digest
 */
function leave(lane, digest) {
  new Uint8Array(kernel.memory.buffer, lane.base, LANE_BYTES).fill(0)
  busy.splice(busy.indexOf(lane), 1)
  freeBases.push(lane.base)
  port?.postMessage({ id: lane.job.id, digest, roundMs })
}

/** @param {number} base */
function readDigest(base) {
  kernel.finish(base)
  const digest = new Uint8Array(DIGEST_BYTES)
  for (let i = 0; i < DIGEST_BYTES; i++) {
    // The words are big-endian in the digest, and little-endian in memory.
    digest[i] = memory.getUint8(base + OUTPUT_AT + (i ^ 3))
  }
  return digest
}

/**
 * Repeats the bytes until all words are filled, as bcrypt does.
 * @param {number} at
 * @param {Uint8Array} bytes
 */
function writeWords(at, bytes) {
  for (let i = 0; i < 4 * KEY_WORDS; i++)
    memory.setUint8(at + (i ^ 3), bytes[i % bytes.length] ?? 0)
}

/**
 * @param {number[]} regions One per lane.
 * @param {number} count
 */
function runRounds(regions, count) {
  for (const [lane, base] of bases.entries()) base.value = regions[lane] ?? 0
  functions[regions.length - 1]?.(count)
}

/**
 * The shortest of a few calls. The first ones also make V8 use its optimising compiler.
 * @param {number} lanes
 */
function measure(lanes) {
  let bestMs = Number.POSITIVE_INFINITY
  for (let i = 0; i < 12; i++) {
    const beganMs = performance.now()
    runRounds(REGIONS.slice(0, lanes), 8)
    bestMs = Math.min(bestMs, (performance.now() - beganMs) / 8)
  }
  return bestMs
}
