// Services whose hashes do not end before the test lets them.

/**
 * Loaded before a service, and in plain JavaScript, because the Node of npm may load it too: while the file HELD_HASHES
 * exists, no job reaches the threads of the lanes.
 */
const HOOK = `
  import { existsSync } from 'node:fs'
  import { setTimeout as sleep } from 'node:timers/promises'
  import { Worker } from 'node:worker_threads'
  const { HELD_HASHES } = process.env
  const { postMessage } = Worker.prototype
  Worker.prototype.postMessage = async function (message, transfer = []) {
    const isHeld = 'salt' in Object(message) && existsSync(HELD_HASHES)
    if (!isHeld) return postMessage.call(this, message, transfer)
    // As a message it would have left its sender by now.
    const job = structuredClone(message, { transfer })
    while (existsSync(HELD_HASHES)) await sleep(20)
    postMessage.call(this, job)
  }`

/** The environment of a service whose hashes wait while the file exists. */
export function withHeldHashes(file: string): Record<string, string> {
  const hook = `data:text/javascript,${encodeURIComponent(HOOK)}`
  return { NODE_OPTIONS: `--import=${hook}`, HELD_HASHES: file }
}
