// Writes kernel.wasm: bcrypt's inner loop for one, two and three hashes at a time, in one thread.
//
// A single hash spends most of its time waiting for its own loads from the S-boxes. The functions below
// interleave the instructions of several hashes ("lanes"), so that one lane computes while another waits.
// README.md explains the idea; `npm run bcrypt:generate` runs this file, and a test compares its output.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import wabt from 'wabt'
import { INITIAL_AT, KEY_AT, MAX_LANES, OUTPUT_AT, SALT_AT, STATE_BYTES } from './memory.js'

const P_WORDS = 18
const S_BOX_BYTES = 1024
const CIPHERTEXT = 'OrpheanBeholderScryDoubt'

/** The module in binary form. The same source and version of wabt yield the same bytes. */
export async function assemble(): Promise<Uint8Array> {
  const { parseWat } = await wabt()
  return parseWat('kernel.wat', toWat()).toBinary({}).buffer
}

function toWat(): string {
  const lanes = range(MAX_LANES)
  return `(module
  (memory (export "memory") 1)
  (data (i32.const ${INITIAL_AT}) "${toBytes(piFraction(P_WORDS + 4 * 256))}")
  ${lanes.map(lane => `(global $base${lane} (export "base${lane}") (mut i32) (i32.const 0))`).join('\n  ')}
  ${toEncipher()}
  ${toBegin()}
  ${lanes.map(lane => toRounds(lane + 1)).join('\n  ')}
  ${toFinish()}
)`
}

/** Blowfish's encryption of one block, for the steps that run once per hash. */
function toEncipher(): string {
  return `(func $encipher (param $p0 i32) (param $left0 i32) (param $right0 i32) (result i32 i32)
    ${declareBoxes([0])}
    ${setBoxes([0])}
    ${encipher([0])}
    (local.get $left0) (local.get $right0))`
}

/** The initial state, expanded with the salt and the key. */
function toBegin(): string {
  return `(func (export "begin") (param $p0 i32) (local $n i32) (local $left0 i32) (local $right0 i32)
    (memory.copy (local.get $p0) (i32.const ${INITIAL_AT}) (i32.const ${STATE_BYTES}))
    ${xorIntoP(0, `(i32.add (local.get $p0) (i32.const ${KEY_AT}))`)}
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
      (call $encipher (local.get $p0) (local.get $left0) (local.get $right0))
      (local.set $right0) (local.set $left0)
      ${storeBlock(0)}
      ${loopWhile('next', STATE_BYTES)}))`
}

/** `count` times: expands the state of each lane with its key, then with its salt. */
function toRounds(laneCount: number): string {
  const lanes = range(laneCount)
  return `(func (export "rounds${laneCount}") (param $count i32) (local $n i32) (local $words i32)
    ${lanes.map(lane => `(local $p${lane} i32) (local $left${lane} i32) (local $right${lane} i32)`).join(' ')}
    ${declareBoxes(lanes)}
    ${lanes.map(lane => `(local.set $p${lane} (global.get $base${lane}))`).join(' ')}
    ${setBoxes(lanes)}
    (loop $round
      (local.set $words (i32.const ${KEY_AT}))
      (loop $expand
        ${lanes.map(lane => xorIntoP(lane, `(i32.add (local.get $p${lane}) (local.get $words))`)).join('\n        ')}
        ${lanes.map(lane => `(local.set $left${lane} (i32.const 0)) (local.set $right${lane} (i32.const 0))`).join(' ')}
        (local.set $n (i32.const 0))
        (loop $next
          ${encipher(lanes)}
          ${lanes.map(storeBlock).join('\n          ')}
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
      (call $encipher (local.get $p) (local.get $left) (local.get $right))
      (local.set $right) (local.set $left)
      (br_if $block${block} (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i32.store offset=${OUTPUT_AT + 8 * block} (local.get $p) (local.get $left))
    (i32.store offset=${OUTPUT_AT + 8 * block + 4} (local.get $p) (local.get $right))`,
  )
  return `(func (export "finish") (param $p i32) (local $n i32) (local $left i32) (local $right i32)
    ${blocks.join('\n    ')})`
}

function declareBoxes(lanes: number[]): string {
  return lanes.flatMap(lane => range(4).map(box => `(local $s${lane}_${box} i32)`)).join(' ')
}

/** In locals, because V8 then reads an S-box with three instructions: extract a byte, add it shifted, load. */
function setBoxes(lanes: number[]): string {
  return lanes
    .flatMap(lane =>
      range(4).map(
        box =>
          `(local.set $s${lane}_${box} (i32.add (local.get $p${lane}) (i32.const ${4 * P_WORDS + box * S_BOX_BYTES})))`,
      ),
    )
    .join('\n    ')
}

/** One block of each lane: 16 rounds, unrolled, with the lanes interleaved. */
function encipher(lanes: number[]): string {
  const steps = lanes.map(lane => xorInto(`left${lane}`, loadP(lane, 0)))
  for (const round of range(16)) {
    for (const lane of lanes) {
      const [from, to] = round % 2 === 0 ? ['left', 'right'] : ['right', 'left']
      // P first: the result of the S-boxes arrives last, and one operation after it is enough.
      const early = `(i32.xor (local.get $${to}${lane}) ${loadP(lane, round + 1)})`
      steps.push(`(local.set $${to}${lane} (i32.xor ${early} ${feistel(lane, `${from}${lane}`)}))`)
    }
  }
  for (const lane of lanes) {
    // The halves change places after the last round.
    const right = `(i32.xor (local.get $right${lane}) ${loadP(lane, 17)})`
    steps.push(
      `${right} (local.get $left${lane}) (local.set $right${lane}) (local.set $left${lane})`,
    )
  }
  return steps.join('\n          ')
}

function feistel(lane: number, half: string): string {
  const [a, b, c, d] = range(4).map(box => {
    const shift = 24 - 8 * box
    const shifted =
      shift === 0 ? `(local.get $${half})` : `(i32.shr_u (local.get $${half}) (i32.const ${shift}))`
    const byte = shift === 24 ? shifted : `(i32.and ${shifted} (i32.const 255))`
    return `(i32.load (i32.add (local.get $s${lane}_${box}) (i32.shl ${byte} (i32.const 2))))`
  })
  return `(i32.add (i32.xor (i32.add ${a} ${b}) ${c}) ${d})`
}

function xorInto(local: string, value: string): string {
  return `(local.set $${local} (i32.xor (local.get $${local}) ${value}))`
}

function loadP(lane: number, word: number): string {
  return `(i32.load offset=${4 * word} (local.get $p${lane}))`
}

function xorIntoP(lane: number, words: string): string {
  return range(P_WORDS)
    .map(
      word =>
        `(i32.store offset=${4 * word} (local.get $p${lane}) (i32.xor ${loadP(lane, word)} (i32.load offset=${4 * word} ${words})))`,
    )
    .join('\n        ')
}

/** P and the S-boxes lie one behind the other, so the blocks fill both from the start. */
function storeBlock(lane: number): string {
  const at = `(i32.add (local.get $p${lane}) (local.get $n))`
  return `(i32.store ${at} (local.get $left${lane})) (i32.store offset=4 ${at} (local.get $right${lane}))`
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

if (import.meta.main) {
  const bytes = await assemble()
  writeFileSync(join(import.meta.dirname, 'kernel.wasm'), bytes)
  process.stdout.write(`kernel.wasm has ${bytes.length} bytes.\n`)
}
