// Random hash jobs for an engine of src/bcrypt, with the digests that npm bcrypt computes for them.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import bcrypt from 'bcrypt'
import fc from 'fast-check'
import { encodeBase64, parseHash } from '../../src/bcrypt/hash-text.ts'
import type { Hasher } from '../../src/bcrypt/hasher.ts'
import {
  createLanes,
  instantiate,
  type KernelName,
  type Speed,
  shareNumbers,
} from '../../src/bcrypt/lanes.js'
import { MAX_LANES } from '../../src/bcrypt/memory.js'
import { anyText } from '../support/any-text.ts'

type HashInput = ReturnType<typeof inputs> extends fc.Arbitrary<infer T> ? T : never
type HashCase = HashInput & { passwordHash: string }

const ofBytes = (minLength: number, maxLength: number) => fc.uint8Array({ minLength, maxLength })
const toBytes = (text: string) => Uint8Array.from(Buffer.from(text)).subarray(0, 72)

const PASSWORD = fc.oneof(
  ofBytes(0, 72),
  ofBytes(0, 1),
  ofBytes(71, 72),
  anyText(24).map(toBytes),
  fc.tuple(ofBytes(0, 35), ofBytes(0, 35)).map(([a, b]) => Uint8Array.from([...a, 0, ...b])),
)

function inputs(cancelAfterTurns: fc.Arbitrary<number | null>) {
  return fc.record({
    password: PASSWORD,
    salt: ofBytes(16, 16),
    prefix: fc.constantFrom('2a', '2b', '2y'),
    cost: fc.constantFrom(4, 4, 4, 4, 4, 4, 5, 5, 6),
    /** The total is this power of two times the rounds. */
    levelledBy: fc.constantFrom(0, 0, 0, 0, 0, 1, 2),
    /** Null if it is not cancelled. */
    cancelAfterTurns,
  })
}

export const NEVER_CANCELLED = fc.constant(null)
export const OFTEN_CANCELLED = fc.oneof(NEVER_CANCELLED, fc.nat({ max: 20 }))

/** The same cases in every run, so that a new failure has its cause in a change. */
export async function makeHashCases(count: number, cancelAfterTurns: fc.Arbitrary<number | null>) {
  const sample = fc.sample(inputs(cancelAfterTurns), { numRuns: count, seed: 1 })
  const toCase = async (input: HashInput): Promise<HashCase> => {
    // npm bcrypt does not know "$2y$", which names the same algorithm as "$2b$".
    const known = input.prefix === '2y' ? '2b' : input.prefix
    const setting = `$${known}$0${input.cost}$${encodeBase64(Buffer.from(input.salt))}`
    const hash = await bcrypt.hash(Buffer.from(input.password), setting)
    return { ...input, passwordHash: hash.replace(known, input.prefix) }
  }
  return Promise.all(sample.map(toCase))
}

/**
 * Runs the cases, so many at a time in each thread, and compares each digest with its own. Returns how many were
 * cancelled before they ended.
 */
export async function checkInAllLanes(
  hasher: Hasher,
  lanes: number,
  cases: HashCase[],
): Promise<number> {
  const remaining = cases.values()
  let cancelled = 0
  const runNext = async (thread: number) => {
    for (const { password, passwordHash, levelledBy, cancelAfterTurns } of remaining) {
      const parsed = parseHash(passwordHash)
      assert.ok(parsed)
      const { cost, salt, digest } = parsed
      const rounds = 2 ** cost
      const job = { password: Buffer.from(password), salt, rounds }
      const hashing = hasher.start(thread, { ...job, totalRounds: rounds * 2 ** levelledBy })
      if (cancelAfterTurns !== null) {
        for (let turn = 0; turn < cancelAfterTurns; turn++) await nextTurn()
        hashing.cancel?.()
      }
      const computed = await hashing.digest
      assert.ok(job.password.every(byte => byte === 0))
      if (computed) assert.deepEqual(computed, digest)
      else cancelled++
      assert.ok(computed || cancelAfterTurns !== null)
      assert.ok(!computed || cancelAfterTurns !== 0)
    }
  }
  const jobs = Array.from({ length: hasher.threads * lanes }, (_, i) => runNext(i % hasher.threads))
  await Promise.all(jobs)
  return cancelled
}

const KERNEL = resolve(import.meta.dirname, '../../src/bcrypt/kernel.wasm')
/** How many jobs a turn has: one, two, … MAX_LANES, one, … */
const sizeOf = (turn: number) => 1 + (turn % MAX_LANES)
/** In all these turns: 1 + 2 + … + MAX_LANES. */
const PLACES = (MAX_LANES * (MAX_LANES + 1)) / 2

// Test vectors of Openwall's crypt_blowfish (wrapper.c), except those that reproduce errors of old versions.
const PUBLISHED: [password: string, hash: string][] = [
  ['U*U', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW'],
  ['U*U*', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK'],
  ['U*U*U', '$2a$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a'],
  ['', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.7uG0VCzI2bS7j6ymqJi9CdcdxiRTWNy'],
  [
    '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789',
    '$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui',
  ],
  ['\xff\xff\xa3', '$2y$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e'],
  ['\xa3', '$2y$05$/OK.fbVrR/bpIqNJ5ianF.Sa7shbm4.OzKpvFnX1pQLmQW96oUlCq'],
  ['\xaa'.repeat(72), '$2a$05$/OK.fbVrR/bpIqNJ5ianF.swQOIzjOiJ9GHEPuhEkvqrUyvWhEMx6'],
]

type KernelCase = Pick<HashCase, 'password' | 'passwordHash' | 'levelledBy'>

/** Each published password in each place of each number of lanes. */
export const PUBLISHED_CASES = PUBLISHED.flatMap((_, turn) =>
  Array.from({ length: PLACES }, (_, place): KernelCase => {
    const [password = '', passwordHash = ''] = PUBLISHED[(place + turn) % PUBLISHED.length] ?? []
    return { password: Buffer.from(password, 'latin1'), passwordHash, levelledBy: 0 }
  }),
)

/** That of a thread without another one, before it has computed anything. */
export function createSpeed(): Speed {
  const fastestMs = shareNumbers(MAX_LANES, Number.POSITIVE_INFINITY)
  return { fastestMs, slowdown: shareNumbers(1, 1) }
}

/** Compares the digests of one kernel, even if another one is faster here. Returns how many. */
export function checkKernel(name: KernelName, cases: KernelCase[]): number {
  const kernel = instantiate(new WebAssembly.Module(readFileSync(KERNEL)))
  const lanes = createLanes(kernel, name, createSpeed())
  let compared = 0
  for (let turn = 0; compared < cases.length; turn++) {
    const expected = new Map<number, Buffer>()
    for (const [id, each] of cases.slice(compared, compared + sizeOf(turn)).entries()) {
      const { cost, salt, digest } = parseHash(each.passwordHash) ?? assert.fail()
      const rounds = 2 ** cost
      const key = Uint8Array.from([...each.password, 0])
      const totalRounds = rounds * 2 ** each.levelledBy
      const roundsLeft = new Float64Array(1)
      lanes.join({ id, key, salt, rounds, totalRounds, roundsLeft })
      expected.set(id, digest)
    }
    while (lanes.isBusy()) {
      for (const { id, digest } of lanes.runChunk()) {
        assert.deepEqual(Buffer.from(digest), expected.get(id))
        compared++
      }
    }
  }
  return compared
}
