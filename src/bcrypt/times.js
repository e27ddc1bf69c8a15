// The speed of a thread, in memory that the main thread reads too. In plain JavaScript, because the worker
// imports it.
import { MAX_LANES } from './memory.js'

/** One more lane must raise the throughput by this factor, because each hash then takes longer. */
const SMALLEST_GAIN = 1.03

/** @typedef {'locals' | 'constants'} KernelName How the functions address the memory, see generate.ts. */

export const KERNEL_NAMES = /** @type {KernelName[]} */ (['locals', 'constants'])
/** How many lanes can be busy. */
export const LANE_COUNTS = Array.from({ length: MAX_LANES }, (_, index) => index + 1)

/**
 * First the slowdown: how many times as long as the fastest rounds the latest ones took. Then the fastest
 * round of each kernel with one lane, with two and with three, in milliseconds.
 */
export function createTimes() {
  const count = 1 + KERNEL_NAMES.length * MAX_LANES
  const memory = new SharedArrayBuffer(count * Float64Array.BYTES_PER_ELEMENT)
  const times = new Float64Array(memory).fill(Number.POSITIVE_INFINITY)
  times[0] = 1
  return times
}

/**
 * Where the fastest round of the kernel with this number of lanes is.
 * @param {KernelName} name
 * @param {number} lanes
 */
export function placeOf(name, lanes) {
  return KERNEL_NAMES.indexOf(name) * MAX_LANES + lanes
}

/**
 * @param {Float64Array} times
 * @param {KernelName} name
 * @param {number} lanes
 */
export function fastestMs(times, name, lanes) {
  return times[placeOf(name, lanes)] ?? 0
}

/**
 * @param {Float64Array} times
 * @param {number} lanes
 */
export function fasterKernel(times, lanes) {
  return fastestMs(times, 'constants', lanes) < fastestMs(times, 'locals', lanes)
    ? 'constants'
    : 'locals'
}

/**
 * The fastest round of the faster kernel.
 * @param {Float64Array} times
 * @param {number} lanes
 */
export function bestRoundMs(times, lanes) {
  return fastestMs(times, fasterKernel(times, lanes), lanes)
}

/**
 * The number of lanes with the highest throughput, by the fastest rounds of all threads.
 * @param {Float64Array[]} threads
 */
export function bestLanes(threads) {
  const hashesPerMs = (/** @type {number} */ lanes) =>
    lanes / Math.min(...threads.map(times => bestRoundMs(times, lanes)))
  let best = 1
  for (const lanes of LANE_COUNTS) {
    if (hashesPerMs(lanes) >= hashesPerMs(best) * SMALLEST_GAIN) best = lanes
  }
  return best
}
