// Looks for a password in the whole memory of this process, threads included. Linux shows it as a file.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { openLanes } from './pool.ts'

const LENGTH = 60
const PART_BYTES = 2 ** 20
// The password is one of these xor the other, so that the test itself holds no copy of it.
const mask = randomBytes(LENGTH)
const masked = randomBytes(LENGTH)
const byteAt = (i: number) => (mask[i] ?? 0) ^ (masked[i] ?? 0)

function makePassword(): Buffer {
  // Outside V8's heap: a small array inside it is copied when garbage is collected.
  const password = Buffer.from(new ArrayBuffer(LENGTH))
  for (let i = 0; i < LENGTH; i++) password[i] = byteAt(i)
  return password
}

const FORMS = {
  'as written': (i: number) => i,
  /** As the kernel reads it. */
  'as words': (i: number) => i ^ 3,
}
type Form = keyof typeof FORMS
const ALL_FORMS: Form[] = ['as written', 'as words']

/**
 * The forms of the password that are found: byte i of it is at the place that the form says. What can be executed is
 * left out: V8's machine code, for which it sets aside a gigabyte.
 */
function formsInMemory(): Form[] {
  const memory = openSync('/proc/self/mem', 'r')
  const buffer = Buffer.alloc(PART_BYTES + LENGTH)
  const found = new Set<Form>()
  for (const line of readFileSync('/proc/self/maps', 'utf8').split('\n')) {
    const [, from = '0', to = '0'] = /^([0-9a-f]+)-([0-9a-f]+) rw-/.exec(line) ?? []
    const end = Number.parseInt(to, 16)
    for (let address = Number.parseInt(from, 16); address < end; address += PART_BYTES) {
      const part = buffer.subarray(0, Math.min(buffer.length, end - address))
      try {
        readSync(memory, part, 0, part.length, address)
      } catch (error) {
        // A thread of V8 has freed it since the list was read.
        if (error instanceof Error && 'code' in error && error.code === 'EIO') break
        throw error
      }
      for (const form of ALL_FORMS) if (includes(part, form)) found.add(form)
    }
  }
  buffer.fill(0)
  closeSync(memory)
  return [...found]
}

function includes(part: Buffer, form: Form): boolean {
  const order = FORMS[form]
  const start = Buffer.from([0, 1, 2, 3].map(place => byteAt(order(place))))
  for (let at = part.indexOf(start); at !== -1; at = part.indexOf(start, at + 1)) {
    if (mask.every((_, i) => part[at + order(i)] === byteAt(i))) return true
  }
  return false
}

if (process.platform === 'linux') {
  test('a password is in memory only as words of its lane, and only until its job ends', async () => {
    const hasher = await openLanes(1, assert.ifError)
    const job = { salt: randomBytes(16), rounds: 16 }
    const copy = makePassword()
    assert.deepEqual(formsInMemory(), ['as written'])
    copy.fill(0)

    const cancelled = hasher.start(0, { ...job, password: makePassword(), totalRounds: 2 ** 30 })
    while (cancelled.roundsLeft() === 2 ** 30) await nextTurn()
    assert.deepEqual(formsInMemory(), ['as words'])
    cancelled.cancel?.()
    // When the thread has done another job, it has seen the cancellation.
    await hasher.start(0, { ...job, password: Buffer.from('other'), totalRounds: 16 }).digest
    assert.deepEqual(formsInMemory(), [])

    await hasher.start(0, { ...job, password: makePassword(), totalRounds: 16 }).digest
    assert.deepEqual(formsInMemory(), [])
    await hasher.close()
  })
}
