// Writes kernel.wasm: bcrypt's inner loop for one hash and for several at a time, in one thread.
//
// A single hash spends most of its time waiting for its own loads from the S-boxes. The functions below
// interleave the instructions of several hashes ("lanes"), so that one lane computes while another waits.
// Each exists with two kinds of addresses, because processors differ in which kind is faster.
// README.md explains the idea; `npm run generate` runs this file, and a test compares its output.
import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import wabt from 'wabt'
import {
  INITIAL_AT,
  KEY_AT,
  MAX_LANES,
  OUTPUT_AT,
  SALT_AT,
  STATE_BYTES,
} from '../src/bcrypt/memory.js'
import { type Addresses, CONSTANTS, LOCALS, P_WORDS } from './bcrypt-addresses.ts'

const CIPHERTEXT = 'OrpheanBeholderScryDoubt'

/** The module in binary form. The same source and version of wabt yield the same bytes. */
export async function assemble(): Promise<Uint8Array> {
  const { parseWat } = await wabt()
  return parseWat('kernel.wat', toWat()).toBinary({}).buffer
}

function toWat(): string {
  const counts = range(MAX_LANES).map(last => range(last + 1))
  return `(module
  (memory (export "memory") 1)
  (data (i32.const ${INITIAL_AT}) "${toBytes(piFraction(P_WORDS + 4 * 256))}")
  ${toEncipher()}
  ${toBegin()}
  ${counts.map(lanes => toRounds('locals', lanes, LOCALS)).join('\n  ')}
  ${counts.map(lanes => toRounds('constants', lanes, CONSTANTS)).join('\n  ')}
  ${toFinish()}
)`
}

/** Blowfish's encryption of one block, for the steps that run once per hash. */
function toEncipher(): string {
  return `(func $encipher (param $lane0 i32) (param $left0 i32) (param $right0 i32) (result i32 i32)
    ${LOCALS.prepare([0])}
    ${encipher([0], LOCALS)}
    (local.get $left0) (local.get $right0))`
}

/** The initial state, expanded with the salt and the key. */
function toBegin(): string {
  return `(func (export "begin") (param $lane0 i32) (local $n i32) (local $left0 i32) (local $right0 i32)
    ${LOCALS.prepare([0])}
    (memory.copy (local.get $p0) (i32.const ${INITIAL_AT}) (i32.const ${STATE_BYTES}))
    (local.set $n (i32.const ${KEY_AT}))
    ${xorIntoP(0, 'n', LOCALS)}
    (local.set $n (i32.const 0))
    (loop $next
      ${[
        ['left0', SALT_AT],
        ['right0', SALT_AT + 4],
      ]
        .map(
          ([half, at]) => `(local.set $${half} (i32.xor (local.get $${half})
        (i32.load offset=${at} (i32.add (local.get $p0) (i32.and (local.get $n) (i32.const 8))))))`,
        )
        .join('\n      ')}
      (call $encipher (local.get $lane0) (local.get $left0) (local.get $right0))
      (local.set $right0) (local.set $left0)
      ${storeBlock(0, LOCALS)}
      ${loopWhile('next', STATE_BYTES)}))`
}

/**
 * `localsN` or `constantsN`, for the first N lanes: `$count` times, expands the state of each with its key, then with its
 * salt. V8 must not know the numbers of the lanes, else it makes constants of the locals: they are parameters. With the
 * addresses of the regions as parameters, it uses the registers of an Arm less well, and three lanes take 2 % longer.
 */
function toRounds(name: string, lanes: number[], addresses: Addresses): string {
  const parameters = lanes.map(lane => `(param $lane${lane} i32)`)
  const halves = lanes.map(lane => `(local $left${lane} i32) (local $right${lane} i32)`)
  return `(func (export "${name}${lanes.length}") (param $count i32) ${parameters.join(' ')}
    (local $n i32) (local $words i32) ${halves.join(' ')}
    ${addresses.prepare(lanes)}
    (loop $round
      (local.set $words (i32.const ${KEY_AT}))
      (loop $expand
        ${lanes.map(lane => xorIntoP(lane, 'words', addresses)).join('\n        ')}
        ${lanes.map(lane => `(local.set $left${lane} (i32.const 0)) (local.set $right${lane} (i32.const 0))`).join(' ')}
        (local.set $n (i32.const 0))
        (loop $next
          ${encipher(lanes, addresses)}
          ${lanes.map(lane => storeBlock(lane, addresses)).join('\n          ')}
          ${loopWhile('next', STATE_BYTES)})
        (br_if $expand (i32.le_u
          (local.tee $words (i32.add (local.get $words) (i32.const ${SALT_AT - KEY_AT})))
          (i32.const ${SALT_AT}))))
      (br_if $round (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))`
}

/** The digest: bcrypt's text, encrypted 64 times with the state. */
function toFinish(): string {
  const words = range(CIPHERTEXT.length / 4).map(i => Buffer.from(CIPHERTEXT).readUInt32BE(4 * i))
  const blocks = range(words.length / 2).map(
    block => `(local.set $left (i32.const ${words[2 * block]})) (local.set $right (i32.const ${words[2 * block + 1]}))
    (local.set $n (i32.const 64))
    (loop $block${block}
      (call $encipher (local.get $lane0) (local.get $left) (local.get $right))
      (local.set $right) (local.set $left)
      (br_if $block${block} (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i32.store offset=${OUTPUT_AT + 8 * block} (local.get $p0) (local.get $left))
    (i32.store offset=${OUTPUT_AT + 8 * block + 4} (local.get $p0) (local.get $right))`,
  )
  return `(func (export "finish") (param $lane0 i32) (local $n i32) (local $left i32) (local $right i32)
    ${LOCALS.prepare([0])}
    ${blocks.join('\n    ')})`
}

/** One block of each lane: 16 rounds, unrolled, with the lanes interleaved. */
function encipher(lanes: number[], addresses: Addresses): string {
  const steps = lanes.map(
    lane =>
      `(local.set $left${lane} (i32.xor (local.get $left${lane}) ${loadP(lane, 0, addresses)}))`,
  )
  for (const round of range(16)) {
    for (const lane of lanes) {
      const [from, to] = round % 2 === 0 ? ['left', 'right'] : ['right', 'left']
      // P first: the result of the S-boxes arrives last, and one operation after it is enough.
      const early = `(i32.xor (local.get $${to}${lane}) ${loadP(lane, round + 1, addresses)})`
      const late = addresses.mix(lane, `(local.get $${from}${lane})`)
      steps.push(`(local.set $${to}${lane} (i32.xor ${early} ${late}))`)
    }
  }
  for (const lane of lanes) {
    // The halves change places after the last round.
    const right = `(i32.xor (local.get $right${lane}) ${loadP(lane, 17, addresses)})`
    steps.push(
      `${right} (local.get $left${lane}) (local.set $right${lane}) (local.set $left${lane})`,
    )
  }
  return steps.join('\n          ')
}

function loadP(lane: number, word: number, addresses: Addresses): string {
  const { base, offset } = addresses.region(lane)
  return `(i32.load offset=${offset + 4 * word} ${base})`
}

/** P xor the 18 words that begin at `$words` of the region. */
function xorIntoP(lane: number, words: string, addresses: Addresses): string {
  const { base, offset } = addresses.region(lane)
  const from = `(i32.add ${base} (local.get $${words}))`
  return range(P_WORDS)
    .map(word => {
      const at = `offset=${offset + 4 * word}`
      return `(i32.store ${at} ${base} (i32.xor ${loadP(lane, word, addresses)} (i32.load ${at} ${from})))`
    })
    .join('\n        ')
}

/** P and the S-boxes lie one behind the other, so the blocks fill both from the start. */
function storeBlock(lane: number, addresses: Addresses): string {
  const { base, offset } = addresses.region(lane)
  const at = `(i32.add ${base} (local.get $n))`
  return `(i32.store offset=${offset} ${at} (local.get $left${lane})) (i32.store offset=${offset + 4} ${at} (local.get $right${lane}))`
}

function loopWhile(label: string, end: number): string {
  return `(br_if $${label} (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 8))) (i32.const ${end})))`
}

/** The first words of the fraction of pi, by Machin's formula: Blowfish's constants. */
function piFraction(words: number): number[] {
  const guardBits = 64n
  const one = 1n << (BigInt(32 * words) + guardBits)
  const arctanOfInverse = (n: bigint) => {
    let sum = 0n
    for (let [power, divisor, sign] = [one / n, 1n, 1n]; power > 0n; divisor += 2n, sign = -sign) {
      sum += (sign * power) / divisor
      power /= n * n
    }
    return sum
  }
  const pi = 16n * arctanOfInverse(5n) - 4n * arctanOfInverse(239n)
  const hex = ((pi - 3n * one) >> guardBits).toString(16).padStart(8 * words, '0')
  return range(words).map(i => Number.parseInt(hex.slice(8 * i, 8 * i + 8), 16))
}

/** Little-endian, as WebAssembly loads them. */
function toBytes(words: number[]): string {
  const bytes = Buffer.alloc(4 * words.length)
  for (const [i, word] of words.entries()) bytes.writeUInt32LE(word, 4 * i)
  return bytes.toString('hex').replace(/../g, '\\$&')
}

function range(length: number): number[] {
  return Array.from({ length }, (_, i) => i)
}

export async function writeKernel(): Promise<void> {
  writeFileSync(resolve(import.meta.dirname, '../src/bcrypt/kernel.wasm'), await assemble())
}
