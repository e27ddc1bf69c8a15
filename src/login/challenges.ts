// The challenge that a passkey signs: its time, random bytes and a tag, so that every instance knows it again. None is stored.
import { createHmac, createSecretKey, randomBytes, timingSafeEqual } from 'node:crypto'

/** Enough until the year 10889. */
const TIME_BYTES = 6
const RANDOM_BYTES = 16
const TAG_BYTES = 16

export type Challenges = ReturnType<typeof createChallenges>

/** All instances share `hexKey`, which also tags device cookies: a label makes another key of it. */
export function createChallenges(hexKey: string) {
  const label = 'passkey challenge'
  const key = createSecretKey(
    createHmac('sha256', Buffer.from(hexKey, 'hex')).update(label).digest(),
  )
  const tagOf = (bytes: Buffer) =>
    createHmac('sha256', key).update(bytes).digest().subarray(0, TAG_BYTES)
  return {
    make(now: Date): string {
      const bytes = randomBytes(TIME_BYTES + RANDOM_BYTES)
      bytes.writeUIntBE(now.getTime(), 0, TIME_BYTES)
      return Buffer.concat([bytes, tagOf(bytes)]).toString('base64url')
    },
    /** When it was made; null unless it is one of ours. */
    timeOf(challenge: string): Date | null {
      const bytes = Buffer.from(challenge, 'base64url')
      const tag = bytes.subarray(TIME_BYTES + RANDOM_BYTES)
      const expected = tagOf(bytes.subarray(0, TIME_BYTES + RANDOM_BYTES))
      const isOurs = tag.length === TAG_BYTES && timingSafeEqual(tag, expected)
      return isOurs ? new Date(bytes.readUIntBE(0, TIME_BYTES)) : null
    },
  }
}
