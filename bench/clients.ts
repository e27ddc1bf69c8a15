// Loopback addresses to call from. A service that counts by address sees each one as another client.
import { Connection, type Target } from './connection.ts'
import { loginRequest } from './seed.ts'

/** The email that `block` blocks for the first address. */
export const BLOCKED = 'blocked@example.com'
const MAX_GUESSES = 10

/**
 * 64,516 different addresses; a larger index repeats them. Up to 254 that follow each other are in different
 * networks, because the clients of one network share its turns.
 */
export function loopbackAddress(index: number): string {
  return `127.1.${index % 254}.${(Math.floor(index / 254) % 254) + 1}`
}

/** Uses up the failures of an email from the first address. */
export async function block(target: Target, email: string): Promise<void> {
  const connection = new Connection(target, loopbackAddress(0))
  const request = loginRequest(email, 'wrong')
  for (let guess = 0; guess < MAX_GUESSES; guess++) {
    const { status } = await connection.send(request)
    if (status === 429) return connection.close()
  }
  throw new Error(`${email} is not blocked after ${MAX_GUESSES} guesses`)
}
