// Counts the passwords that are verified or hashed by services in this process.
import { mock } from 'node:test'
import { Worker } from 'node:worker_threads'
import bcrypt from 'bcrypt'

/** Counts the jobs for the threads of the lanes, and the calls of npm bcrypt. */
export async function countHashes(action: () => Promise<unknown>): Promise<number> {
  const posted = mock.method(Worker.prototype, 'postMessage')
  const hashed = mock.method(bcrypt, 'hash')
  try {
    await action()
    const jobs = posted.mock.calls.filter(call => isHashJob(call.arguments[0]))
    return jobs.length + hashed.mock.callCount()
  } finally {
    for (const { mock } of [posted, hashed]) mock.restore()
  }
}

/** False for messages to the thread that uses SQLite. */
export function isHashJob(message: unknown): boolean {
  return 'salt' in Object(message)
}
