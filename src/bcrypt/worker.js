// A thread of the pool: computes hashes in its lanes until they are done. In plain JavaScript, because a
// worker that runs TypeScript needs 22 MiB more.
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { createLanes, instantiate } from './lanes.js'

/**
 * @typedef {import('./lanes.js').Job} Job
 * @typedef {{
 *   module: WebAssembly.Module
 *   kernel: import('./lanes.js').KernelName
 *   speed: import('./lanes.js').Speed
 *   knownAnswers: KnownAnswer[]
 * }} WorkerData
 * @typedef {{ key: Uint8Array, salt: Uint8Array, rounds: number, digest: Uint8Array }} KnownAnswer
 * @typedef {Job | { cancelledId: number }} Message
 */

/** Short, so that other load on the machine interrupts only some of the chunks. */
const MEASURED_CHUNK_MS = 0.25
// The measurement ends when a pass has changed no time by more than three percent: then V8's optimising compiler
// has ended. The start must not take long on a busy machine; the lanes at work correct what is still wrong.
const CHANGED = 0.97
const MOST_PASSES = 5

const port = parentPort
if (!port) throw new Error('to be run as a worker')
const { module, kernel, speed, knownAnswers } = /** @type {WorkerData} */ (workerData)
testAndMeasure()
const lanes = createLanes(instantiate(module), kernel, speed)
port.on('message', message => {
  receive(message)
  // While hashes are computed, this function does not return: it asks for messages between chunks.
  while (lanes.isBusy()) {
    for (const done of lanes.runChunk()) port.postMessage(done)
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) {
      receive(next.message)
    }
  }
})
port.postMessage('ready')

/** @param {Message} message */
function receive(message) {
  if ('cancelledId' in message) lanes.cancel(message.cancelledId)
  else lanes.join(message)
}

/** Computes hashes with known digests with each number of lanes, which also measures the times. */
function testAndMeasure() {
  const lanes = createLanes(instantiate(module), kernel, speed, MEASURED_CHUNK_MS)
  const { fastestMs, slowdown } = speed
  for (let passes = 0, isChanged = true; isChanged && passes < MOST_PASSES; passes++) {
    const before = fastestMs.slice()
    for (const i of knownAnswers.keys()) test(lanes, knownAnswers.slice(0, i + 1))
    isChanged = fastestMs.some((ms, i) => ms < (before[i] ?? 0) * CHANGED)
  }
  // What it measured was V8's compiler rather than other load.
  slowdown[0] = 1
}

/**
 * @param {ReturnType<typeof createLanes>} lanes
 * @param {KnownAnswer[]} answers
 */
function test(lanes, answers) {
  for (const [id, { key, salt, rounds }] of answers.entries()) {
    const work = { rounds, totalRounds: rounds, roundsLeft: new Float64Array(1) }
    lanes.join({ id, key: key.slice(), salt, ...work })
  }
  while (lanes.isBusy()) {
    for (const { id, digest } of lanes.runChunk()) {
      if (Buffer.compare(digest, answers[id]?.digest ?? new Uint8Array()) !== 0) {
        throw new Error('the kernel computed a wrong digest')
      }
    }
  }
}
