// The value of a device cookie: random, with a tag that tells a made-up one without a look-up.
import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto'
import { randomToken } from '../session/secrets.ts'

/** 256 random bits in base64url. */
const RANDOM_CHARACTERS = 43
/** 128 bits: a guess at a tag is wrong, and a right one would gain a look-up and nothing else. */
const TAG_BYTES = 16

export type DeviceTokens = {
  make(): string
  isGenuine(token: string): boolean
}

/** `hexKey` is the same on all instances, and outlives every cookie that it made. */
export function createDeviceTokens(hexKey: string): DeviceTokens {
  const key = createSecretKey(hexKey, 'hex')
  const tagOf = (random: string) =>
    createHmac('sha256', key).update(random).digest().subarray(0, TAG_BYTES).toString('base64url')
  return {
    make() {
      const random = randomToken()
      return random + tagOf(random)
    },
    isGenuine(token) {
      const given = Buffer.from(token.slice(RANDOM_CHARACTERS))
      const expected = Buffer.from(tagOf(token.slice(0, RANDOM_CHARACTERS)))
      return given.length === expected.length && timingSafeEqual(given, expected)
    },
  }
}
