import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { parseHash } from './hash-text.ts'
import type { Hasher } from './hasher.ts'
import { openHasher } from './open-hasher.ts'

const KERNEL = fs.readFileSync(join(import.meta.dirname, 'kernel.wasm'))
const stored = parseHash('$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW')

async function open(engine: 'lanes' | 'native') {
  const warnings: string[] = []
  const hasher = await openHasher(engine, 2, text => warnings.push(text), assert.ifError)
  return { hasher, warnings }
}

async function assertCorrect(hasher: Hasher) {
  assert.ok(stored)
  const { salt, digest } = stored
  const job = { password: Buffer.from('U*U'), salt, rounds: 32, totalRounds: 32 }
  assert.deepEqual(await hasher.start(1, job).digest, digest)
}

/** The file kernel.wasm has this content during the test. */
function replaceKernel(t: TestContext, content: Buffer) {
  t.mock.method(fs, 'readFileSync', () => content)
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
  })
}

/** The kernel with other bytes in place of each of these. */
function withReplaced(...changes: [from: string, to: string][]): Buffer {
  const bytes = Buffer.from(KERNEL)
  const places = changes.map(([from]) => bytes.indexOf(from, 'latin1'))
  assert.ok(!places.includes(-1))
  for (const [i, [, to]] of changes.entries()) bytes.write(to, places[i] ?? 0, 'latin1')
  return bytes
}

/** Two functions of each kernel have each other's name: which kernel is used depends on the processor. */
function withSwapped(...pairs: [left: string, right: string][]): Buffer {
  return withReplaced(
    ...pairs.flatMap(([left, right]): [string, string][] => [
      [left, right],
      [right, left],
    ]),
  )
}

for (const engine of ['lanes', 'native'] as const) {
  test(`the engine ${engine} is used if it is asked for, without a warning`, async () => {
    const { hasher, warnings } = await open(engine)
    assert.equal(hasher.name, engine)
    assert.deepEqual(warnings, [])
    await assertCorrect(hasher)
    await hasher.close()
  })
}

describe('npm bcrypt is used, with a warning, if', () => {
  const WRONG = /wrong digest/
  const BROKEN: [what: string, kernel: Buffer, reason: RegExp][] = [
    ['the kernel is empty', Buffer.alloc(0), /WebAssembly\.Module/],
    ['the kernel is cut off', KERNEL.subarray(0, 1_000), /WebAssembly\.Module/],
    ['a digit of pi is wrong', withReplaced(['\x88\x6a\x3f\x24', '\x87\x6a\x3f\x24']), WRONG],
    [
      'the function for six lanes computes five',
      withSwapped(['locals6', 'locals5'], ['constants6', 'constants5']),
      WRONG,
    ],
    [
      'the function for a lane computes two',
      withSwapped(['locals1', 'locals2'], ['constants1', 'constants2']),
      WRONG,
    ],
  ]
  for (const [what, kernel, reason] of BROKEN) {
    test(what, async t => {
      replaceKernel(t, kernel)
      const { hasher, warnings } = await open('lanes')
      assert.equal(hasher.name, 'native')
      assert.equal(warnings.length, 1)
      assert.match(warnings[0] ?? '', /npm bcrypt, because the lanes cannot be used: /)
      assert.match(warnings[0] ?? '', reason)
      await assertCorrect(hasher)
    })
  }
})
