import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import bcrypt from 'bcrypt'
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

/** npm bcrypt, when it is measured, takes this long for a hash. Without a timer, a busy machine adds nothing. */
function replaceSpeed(t: TestContext, hashMs: number) {
  t.mock.method(bcrypt, 'hash', async (_password: Buffer, setting: string) => {
    if (hashMs > 0) await setTimeout(hashMs)
    return setting + '.'.repeat(31)
  })
}

function withChanged(find: string, change: (at: number, bytes: Buffer) => void): Buffer {
  const bytes = Buffer.from(KERNEL)
  const at = bytes.indexOf(find, 'latin1')
  assert.notEqual(at, -1)
  change(at, bytes)
  return bytes
}

test('the lanes are used if they are faster', async t => {
  replaceSpeed(t, 50)
  const { hasher, warnings } = await open('lanes')
  assert.equal(hasher.name, 'lanes')
  assert.deepEqual(warnings, [])
  await assertCorrect(hasher)
  await hasher.close()
})

test('the lanes are used if they are faster in a later measurement', async t => {
  const bcryptOnce = t.mock.method(bcrypt, 'hash', async (_password: Buffer, setting: string) => {
    // Two threads, measured three times each: the first measurement of all.
    if (bcryptOnce.mock.callCount() >= 6) await setTimeout(50)
    return setting + '.'.repeat(31)
  })
  const { hasher, warnings } = await open('lanes')
  assert.equal(hasher.name, 'lanes')
  assert.deepEqual(warnings, [])
  assert.deepEqual(Object.keys(hasher.speed().fastestMs), ['locals', 'constants', 'native'])
  await hasher.close()
})

test('npm bcrypt is used if it is asked for', async () => {
  const { hasher, warnings } = await open('native')
  assert.equal(hasher.name, 'native')
  assert.deepEqual(warnings, [])
  await assertCorrect(hasher)
})

describe('npm bcrypt is used, with a warning, if', () => {
  test('it is faster', async t => {
    replaceSpeed(t, 0)
    const { hasher, warnings } = await open('lanes')
    assert.equal(hasher.name, 'native')
    assert.equal(warnings.length, 1)
    assert.match(
      warnings[0] ?? '',
      /npm bcrypt, because the lanes have 0\.\d\d times its throughput here\.$/,
    )
  })

  const PI = '\x88\x6a\x3f\x24'
  const BROKEN: [what: string, kernel: Buffer, reason: RegExp][] = [
    ['the kernel is empty', Buffer.alloc(0), /WebAssembly\.Module/],
    ['the kernel is cut off', KERNEL.subarray(0, 1_000), /WebAssembly\.Module/],
    [
      'the kernel has a wrong constant',
      withChanged(PI, (at, bytes) => bytes.writeUInt8(0x87, at)),
      /wrong digest/,
    ],
    ...[
      ['locals3', 'locals2'],
      ['constants7', 'constants3'],
      ['constants4', 'constants2'],
    ].map(([left = '', right = '']): [string, Buffer, RegExp] => [
      `the functions ${left} and ${right} of the kernel compute other lanes`,
      withChanged(left, (at, bytes) => {
        bytes.write(left, bytes.indexOf(right))
        bytes.write(right, at)
      }),
      /wrong digest/,
    ]),
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
