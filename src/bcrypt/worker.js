// A thread of the pool: computes hashes in its lanes until they are done. In plain JavaScript, because a
// worker that runs TypeScript needs 22 MiB more.
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { createLanes, instantiate } from './lanes.js'
import { MAX_LANES } from './memory.js'

/**
 * @typedef {import('./lanes.js').Job} Job
 * @typedef {{ module: WebAssembly.Module, times: Float64Array, knownAnswers: KnownAnswer[] }} WorkerData
 * @typedef {{ key: Uint8Array, salt: Uint8Array, rounds: number, digest: Uint8Array }} KnownAnswer
 * @typedef {Job | { cancelledId: number }} Message
 */

/** Long enough for V8's optimising compiler, and for some measurements after it. */
const SELF_TEST_MS = 30

const port = parentPort
if (!port) throw new Error('to be run as a worker')
const { module, times, knownAnswers } = /** @type {WorkerData} */ (workerData)
testAndMeasure()
const lanes = createLanes(instantiate(module), times)
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
  if ('cancelledId' in message) lanes.leave(message.cancelledId)
  else lanes.join(message)
}

/** Computes hashes with known digests in one lane, in two and in three, which also measures the times. */
function testAndMeasure() {
  const lanes = createLanes(instantiate(module), times)
  const endsMs = performance.now() + SELF_TEST_MS
  do {
    for (let count = 1; count <= MAX_LANES; count++) {
      for (const [lane, { key, salt, rounds }] of knownAnswers.slice(0, count).entries()) {
        const roundsLeft = new Float64Array(1)
        lanes.join({
          id: lane,
          lane,
          key: key.slice(),
          salt,
          rounds,
          totalRounds: rounds,
          roundsLeft,
        })
      }
      while (lanes.isBusy()) {
        for (const { id, digest } of lanes.runChunk()) {
          const expected = knownAnswers[id]?.digest
          if (!expected || Buffer.compare(digest, expected) !== 0) {
            throw new Error('the kernel computed a wrong digest')
          }
        }
      }
    }
  } while (performance.now() < endsMs)
  // What it measured was V8's compiler rather than other load.
  times[0] = 1
}
