// What the two engines do differently, so that the store above them is written once.
import type { Kysely, Transaction } from 'kysely'
import type { AttemptStore } from '../../domain/attempt.ts'
import type { Schema } from './schema.ts'

export type EngineName = 'sqlite' | 'postgres'

/** What every login does, in as few steps as an engine can. */
export type Attempts = Omit<AttemptStore, 'findDevice' | 'upgradePasswordHash'>

export type Engine = {
  name: EngineName
  db: Kysely<Schema>
  /** Runs an operation again, without blocking the event loop, while others are in its way. */
  retrying<T>(operation: () => Promise<T>): Promise<T>
  /** Gives a migration the time that it and those of other processes need. */
  migrating<T>(operation: (db: Kysely<Schema>) => Promise<T>): Promise<T>
  attempts: Attempts
  /** False if another instance is doing the housekeeping; held until the transaction ends. */
  isAlone(trx: Transaction<Schema>): Promise<boolean>
  readClock(): Promise<Date | null>
  close(): Promise<void>
}

/**
 * Longest that one operation of the service takes or waits for others, so that a login's fault is
 * answered within 2 s. A command has more time.
 */
export const OPERATION_TIMEOUT_MS = 1_500

/** Most of what is in the way is gone within a millisecond; what stays must not be asked all the time. */
const FIRST_PAUSE_MS = 4
const LONGEST_PAUSE_MS = 50

/** Repeats while `mayRepeat` says so, with random pauses that grow, until the time is up. */
export async function repeat<T>(
  operation: () => Promise<T>,
  mayRepeat: (error: unknown) => boolean,
  timeoutMs = OPERATION_TIMEOUT_MS,
): Promise<T> {
  const deadline = performance.now() + timeoutMs
  for (let longestMs = FIRST_PAUSE_MS; ; longestMs = Math.min(2 * longestMs, LONGEST_PAUSE_MS)) {
    try {
      return await operation()
    } catch (error) {
      const pauseMs = Math.random() * longestMs
      if (!mayRepeat(error) || performance.now() + pauseMs > deadline) throw error
      await new Promise(resolve => setTimeout(resolve, pauseMs))
    }
  }
}
