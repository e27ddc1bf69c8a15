// Counts the bcrypt evaluations of services that run in this process.
import { mock } from 'node:test'
import bcrypt from 'bcrypt'

/** At the lowest cost, which the tests use, a verified attempt is exactly one evaluation. */
export async function countHashes(action: () => Promise<unknown>): Promise<number> {
  const calls = [mock.method(bcrypt, 'compare'), mock.method(bcrypt, 'hash')]
  try {
    await action()
    return calls.reduce((sum, { mock }) => sum + mock.callCount(), 0)
  } finally {
    for (const { mock } of calls) mock.restore()
  }
}
