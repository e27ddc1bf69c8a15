// How the code of a lane finds its region of the memory and its S-boxes there, in the text form of WebAssembly.
// Processors differ in which way is faster, so bcrypt-kernel.ts writes every function in both.
import { LANE_BYTES } from '../src/bcrypt/memory.js'

export type Addresses = {
  /** Declares and sets the locals that the others need. A lane's number is in `$lane0` and so on. */
  prepare(lanes: number[]): string
  /** The address of the first byte of the region: an expression, and what to add to it. */
  region(lane: number): { base: string; offset: number }
  /** Blowfish's F of this half: ((a + b) xor c) + d, each the word of an S-box that one of its bytes selects. */
  mix(lane: number, half: string): string
}

export const P_WORDS = 18
/** The first belongs to the highest byte. */
const BOXES = [0, 1, 2, 3]
const S_BOX_BYTES = 1024

/**
 * Regions and S-boxes begin at addresses in locals. V8 then reads an S-box with three instructions of an Arm:
 * extract a byte, add it shifted, load. Three lanes have 21 locals, for which an Arm has enough registers.
 */
export const LOCALS: Addresses = {
  prepare(lanes) {
    const regions = lanes.map(lane => [
      `$p${lane}`,
      `(i32.mul (local.get $lane${lane}) (i32.const ${LANE_BYTES}))`,
    ])
    const boxes = lanes.flatMap(lane =>
      BOXES.map(box => [
        boxLocal(lane, box),
        `(i32.add (local.get $p${lane}) (i32.const ${boxAt(box)}))`,
      ]),
    )
    const locals = [...regions, ...boxes]
    return `${locals.map(([name]) => `(local ${name} i32)`).join(' ')}
    ${locals.map(([name, value]) => `(local.set ${name} ${value})`).join('\n    ')}`
  },
  region: lane => ({ base: `(local.get $p${lane})`, offset: 0 }),
  mix(lane, half) {
    const [a, b, c, d] = BOXES.map(box => {
      const byte = box === 0 ? shiftRight(half, 24) : and(shiftRight(half, 24 - 8 * box), 255)
      return `(i32.load (i32.add (local.get ${boxLocal(lane, box)}) (i32.shl ${byte} (i32.const 2))))`
    })
    return `(i32.add (i32.xor (i32.add ${a} ${b}) ${c}) ${d})`
  },
}

/**
 * All addresses are constants, so that only the halves need registers: V8 has about ten of them on x86-64,
 * where a load adds a constant to a register. What looks longer than needed below takes less time there.
 */
export const CONSTANTS: Addresses = {
  prepare: () => '',
  region: lane => ({ base: '(i32.const 0)', offset: lane * LANE_BYTES }),
  mix(lane, half) {
    const load = (box: number, type = 'i32.load') => {
      // One instruction takes the lowest byte, and the load multiplies it. The others are rotated, not shifted.
      const index =
        box === 3
          ? `(i32.shl ${and(half, 255)} (i32.const 2))`
          : and(`(i32.rotr ${half} (i32.const ${22 - 8 * box}))`, 4 * 255)
      return `(${type} offset=${lane * LANE_BYTES + boxAt(box)} ${index})`
    }
    // V8 loads the word twice for an i32.xor, and once for one of 64 bits.
    const sum = `(i64.extend_i32_u (i32.add ${load(0)} ${load(1)}))`
    return `(i32.add (i32.wrap_i64 (i64.xor ${sum} ${load(2, 'i64.load32_u')})) ${load(3)})`
  },
}

function boxLocal(lane: number, box: number): string {
  return `$s${lane}_${box}`
}

function boxAt(box: number): number {
  return 4 * P_WORDS + box * S_BOX_BYTES
}

function shiftRight(value: string, bits: number): string {
  return bits === 0 ? value : `(i32.shr_u ${value} (i32.const ${bits}))`
}

function and(value: string, mask: number): string {
  return `(i32.and ${value} (i32.const ${mask}))`
}
