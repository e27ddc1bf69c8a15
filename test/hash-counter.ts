// Counts the passwords that are verified or hashed by services in this process.
import { mock } from 'node:test'
import { Worker } from 'node:worker_threads'
import bcrypt from 'bcrypt'

/** Counts the jobs for the threads of the lanes, and the calls of npm bcrypt. */
export async function countHashes(action: () => Promise<unknown>): Promise<number> {
  const calls = [mock.method(Worker.prototype, 'postMessage'), mock.method(bcrypt, 'hash')]
  try {
    await action()
    return calls.reduce((sum, { mock }) => sum + mock.callCount(), 0)
  } finally {
    for (const { mock } of calls) mock.restore()
  }
}
