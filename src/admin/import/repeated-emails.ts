// Finds emails that occur twice in a file, in bounded memory: a hash table of 64 bits of each email's digest.
import { digestOf } from '../../identifiers.ts'

/** Together 50 MB at most. Emails after the first three million are not remembered. */
const MAX_SLOTS = 2 ** 22
const FIRST_SLOTS = 2 ** 12
const FULL = 0.75

export class RepeatedEmails {
  /** For each slot: two halves of the digest, and the number of the line; 0 if it is free. */
  #slots = new Uint32Array(3 * FIRST_SLOTS)
  #count = 0

  /** The line of the first row with this email; null if this is the first. */
  firstLineOf(email: string, line: number): number | null {
    const digest = digestOf(email)
    const high = Number.parseInt(digest.slice(0, 8), 16)
    const low = Number.parseInt(digest.slice(8, 16), 16)
    const at = this.#find(high, low)
    const known = this.#slots[at + 2] ?? 0
    if (known !== 0) return known
    if (this.#isFull() && this.#slots.length === 3 * MAX_SLOTS) return null
    this.#slots.set([high, low, line], at)
    this.#count++
    if (this.#isFull() && this.#slots.length < 3 * MAX_SLOTS) this.#grow()
    return null
  }

  #isFull(): boolean {
    return this.#count >= (this.#slots.length / 3) * FULL
  }

  /** Where this digest is, or the free slot where it belongs. */
  #find(high: number, low: number): number {
    const slots = this.#slots
    const mask = slots.length / 3 - 1
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      const at = 3 * slot
      if (slots[at + 2] === 0 || (slots[at] === high && slots[at + 1] === low)) return at
    }
  }

  #grow(): void {
    const old = this.#slots
    this.#slots = new Uint32Array(2 * old.length)
    for (let at = 0; at < old.length; at += 3) {
      if (old[at + 2] === 0) continue
      const [high = 0, low = 0] = [old[at], old[at + 1]]
      this.#slots.set(old.subarray(at, at + 3), this.#find(high, low))
    }
  }
}
