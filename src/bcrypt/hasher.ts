// The contract of the two engines that compute bcrypt: `lanes` (pool.ts) and `native` (native.ts).

export type HashJob = {
  /** At most 72 bytes. Overwritten with zeros as soon as they have been used. */
  password: Buffer
  /** 16 bytes. */
  salt: Buffer
  /** The digest is taken after this many rounds: 2 to the power of the cost. */
  rounds: number
  /** Rounds in all. Those after the digest have no result: they make a cheaper hash take as long. */
  totalRounds: number
}

export type Hashing = {
  thread: number
  roundsLeft(): number
  /** 23 bytes, or null after it was cancelled. Rejects if the thread dies. */
  digest: Promise<Buffer | null>
  /** Stops it, and frees its lane for the next job. Null if the engine cannot stop a hash. */
  cancel: (() => void) | null
}

export type Hasher = {
  name: 'lanes' | 'native'
  threads: number
  /**
   * How long one round of all hashes of a thread takes, as measured lately: the first value with one hash at
   * a time, the second with two. There are as many values as hashes are worth computing at a time, which may change.
   */
  roundMs(thread: number): readonly number[]
  /** Begins at once. There must be a free lane. */
  start(thread: number, job: HashJob): Hashing
  close(): Promise<void>
}
