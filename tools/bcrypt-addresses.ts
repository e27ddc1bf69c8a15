// How the code of a lane finds its region of the memory, in the text form of WebAssembly. Processors differ in
// which way is faster, so bcrypt-kernel.ts writes every function in both.
import { LANE_BYTES } from '../src/bcrypt/memory.js'

export type Addresses = {
  /** The address of the first byte of the region: an expression, and what to add to it. */
  region(lane: number): { base: string; offset: number }
  /** The word of an S-box that a byte of this half selects. Box 0 belongs to the highest byte. */
  loadFromBox(lane: number, box: number, half: string): string
}

export const P_WORDS = 18
const BOXES = [0, 1, 2, 3]
const S_BOX_BYTES = 1024

/**
 * Regions and S-boxes begin at addresses in locals. V8 then reads an S-box with three instructions of an Arm:
 * extract a byte, add it shifted, load. Three lanes have 21 locals, for which an Arm has enough registers.
 */
export const LOCALS: Addresses = {
  region: lane => ({ base: `(local.get $p${lane})`, offset: 0 }),
  loadFromBox(lane, box, half) {
    const byte = box === 0 ? shiftRight(half, 24) : and(shiftRight(half, 24 - 8 * box), 255)
    return `(i32.load (i32.add (local.get ${boxLocal(lane, box)}) (i32.shl ${byte} (i32.const 2))))`
  },
}

/**
 * All addresses are constants, so that only the halves need registers: V8 has about ten of them on x86-64,
 * where a load adds a constant to a register. Such a function is for certain lanes.
 */
export const CONSTANTS: Addresses = {
  region: lane => ({ base: '(i32.const 0)', offset: lane * LANE_BYTES }),
  loadFromBox(lane, box, half) {
    const index =
      box === 3
        ? // One instruction takes the lowest byte, and the load multiplies it.
          `(i32.shl ${and(half, 255)} (i32.const 2))`
        : and(shiftRight(half, 22 - 8 * box), 4 * 255)
    return `(i32.load offset=${lane * LANE_BYTES + boxAt(box)} ${index})`
  },
}

/** The locals that LOCALS needs besides those of the regions, `$p0` and so on. */
export function declareBoxes(lanes: number[]): string {
  return lanes.flatMap(lane => BOXES.map(box => `(local ${boxLocal(lane, box)} i32)`)).join(' ')
}

export function setBoxes(lanes: number[]): string {
  const setBox = (lane: number, box: number) =>
    `(local.set ${boxLocal(lane, box)} (i32.add (local.get $p${lane}) (i32.const ${boxAt(box)})))`
  return lanes.flatMap(lane => BOXES.map(box => setBox(lane, box))).join('\n    ')
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
