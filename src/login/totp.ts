// Codes of authenticator apps: RFC 6238 with SHA-1, six digits and steps of 30 seconds, as all of them make them.
import {
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'

const STEP_SECONDS = 30
const DIGITS = 6
/** A code is accepted during its own step, the one before and the one after: clocks differ, and typing takes time. */
const ACCEPTED_STEPS = 1
/** Codes of so many steps before and after now are recognised, but not accepted: a clock is wrong. */
const RECOGNISED_STEPS = 10
/** The nearest first: 0, -1, 1, -2, 2 … */
const OFFSETS = Array.from({ length: 2 * RECOGNISED_STEPS + 1 }, (_, index) =>
  index % 2 === 0 ? index / 2 : -(index + 1) / 2,
)
/** RFC 4226 recommends 160 bits. SHA-1 hashes a longer key than 64 bytes first. */
const SECRET_MIN_BYTES = 20
const SECRET_MAX_BYTES = 64

/** `usedTo` is the start of the code's step. A positive offset: the code comes too early. */
export type FoundCode = { usedTo: Date; offsetSeconds: number; isAccepted: boolean }

/** Computes the codes of all recognised steps, whatever was typed. Spaces in it do not matter. */
export function findCode(secret: Buffer, typed: string, now: Date): FoundCode | null {
  // A fifth of the time that a code takes with the bytes themselves.
  const key = createSecretKey(secret)
  const current = Math.floor(now.getTime() / 1000 / STEP_SECONDS)
  const given = Buffer.from(typed.replace(/\s/g, ''))
  const matching = OFFSETS.filter(offset => {
    const code = Buffer.from(codeAt(key, current + offset))
    return code.length === given.length && timingSafeEqual(code, given)
  })
  const [offset] = matching
  if (offset === undefined) return null
  return {
    usedTo: new Date((current + offset) * STEP_SECONDS * 1000),
    offsetSeconds: offset * STEP_SECONDS,
    isAccepted: Math.abs(offset) <= ACCEPTED_STEPS,
  }
}

function codeAt(key: KeyObject, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(Math.max(0, step)))
  const mac = createHmac('sha1', key).update(counter).digest()
  const number = mac.readUInt32BE(mac.readUInt8(mac.length - 1) & 0xf) & 0x7fffffff
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0')
}

/** RFC 4648. */
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** In base32. */
export function makeSecret(): string {
  return toBase32(randomBytes(SECRET_MIN_BYTES))
}

export function toBase32(bytes: Buffer): string {
  const bits = [...bytes].map(byte => byte.toString(2).padStart(8, '0')).join('')
  const groups = bits.match(/.{1,5}/g) ?? []
  return groups.map(group => BASE32[Number.parseInt(group.padEnd(5, '0'), 2)]).join('')
}

/** Null unless the text is the base32 of a secret that is long enough. Spaces, case and padding do not matter. */
export function parseSecret(typed: string): Buffer | null {
  const text = typed.replace(/[\s=]/g, '').toUpperCase()
  if (!/^[A-Z2-7]*$/.test(text) || text.length > Math.ceil((SECRET_MAX_BYTES * 8) / 5)) return null
  const bits = [...text].map(digit => BASE32.indexOf(digit).toString(2).padStart(5, '0')).join('')
  const bytes = Buffer.from((bits.match(/.{8}/g) ?? []).map(byte => Number.parseInt(byte, 2)))
  return bytes.length >= SECRET_MIN_BYTES ? bytes : null
}
