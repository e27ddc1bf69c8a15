// Passkeys as a second step (WebAuthn Level 3): the checks of what a browser sends of one. They need no CBOR, because the
// browser hands over the public key and the authenticator data. No attestation is asked for.
import {
  createPublicKey,
  generateKeyPairSync,
  hash,
  type KeyObject,
  randomBytes,
  verify,
} from 'node:crypto'
import type { Challenges } from './challenges.ts'

export const CHALLENGE_SECONDS = 300
/** A challenge from further ahead is of a time when the clock was wrong. */
const AHEAD_MAX_MS = 10_000

/** What a browser sends of a passkey that was used, in base64url. */
export type Assertion = Record<'id' | 'clientDataJSON' | 'authenticatorData' | 'signature', string>
/** The same of a new one. `publicKey` is an SPKI, and `algorithm` the number of COSE. */
export type NewPasskey = Omit<Assertion, 'signature'> & {
  name: string
  publicKey: string
  algorithm: number
}

export type PasskeyRules = {
  /** The domain that passkeys are bound to; null if there are none here. */
  rpId: string | null
  /** That of the pages that use them. What a request says of its address does not count. */
  origin: string | null
  challenges: Challenges
}

/** `elsewhere`: on a page of another address. */
export type PasskeyFlaw = 'wrong' | 'elsewhere' | 'late'
/** `at`: the time of its challenge. */
type Checked = { at: Date } | { flaw: PasskeyFlaw }

/** Does the same work whichever key is stored, also if none is, and whatever is wrong. */
export function checkAssertion(
  rules: PasskeyRules,
  sent: Assertion,
  storedKey: string | null,
  now: Date,
): Checked {
  const clientData = bytesOf(sent.clientDataJSON)
  const bytes = bytesOf(sent.authenticatorData)
  const signed = Buffer.concat([bytes, hash('sha256', clientData, 'buffer')])
  const key = readKey(storedKey ?? DECOY)
  const isSigned = isSignedBy(key, signed, bytesOf(sent.signature)) && storedKey !== null
  const data = readAuthenticatorData(rules.rpId, bytes)
  const isWhole = data && !data.isAttested && data.rest.length > 0 === data.isExtended
  const checked = checkClientData(rules, clientData, 'webauthn.get', now)
  return isSigned && isWhole ? checked : { flaw: 'wrong' }
}

/** Nothing vouches for a new key but the password and the proof that came along. */
export function checkNewPasskey(rules: PasskeyRules, sent: NewPasskey, now: Date): Checked {
  const key = KEY_TEXTS[sent.algorithm]?.test(sent.publicKey) ? readKey(sent.publicKey) : null
  const isFit = key && isUsual(key) && toText(key) === sent.publicKey
  const data = readAuthenticatorData(rules.rpId, bytesOf(sent.authenticatorData))
  const isOfId = data?.isAttested && attestedId(data.rest) === sent.id
  if (!isFit || !isOfId || !CREDENTIAL_ID.test(sent.id)) return { flaw: 'wrong' }
  return checkClientData(rules, bytesOf(sent.clientDataJSON), 'webauthn.create', now)
}

function checkClientData(
  { origin, challenges }: PasskeyRules,
  bytes: Buffer,
  expectedType: 'webauthn.create' | 'webauthn.get',
  now: Date,
): Checked {
  const { type, challenge, origin: usedAt, crossOrigin = false, topOrigin } = parseObject(bytes)
  const at = typeof challenge === 'string' ? challenges.timeOf(challenge) : null
  // A site that has our page in a frame must not be able to ask for a passkey.
  const isFramed = crossOrigin !== false || topOrigin !== undefined
  if (at === null || type !== expectedType || isFramed) return { flaw: 'wrong' }
  if (usedAt !== origin) return { flaw: 'elsewhere' }
  const aheadMs = at.getTime() - now.getTime()
  const isInTime = aheadMs <= AHEAD_MAX_MS && aheadMs >= -CHALLENGE_SECONDS * 1000
  return isInTime ? { at } : { flaw: 'late' }
}

function parseObject(bytes: Buffer): Record<string, unknown> {
  try {
    return Object(JSON.parse(bytes.toString()))
  } catch {
    return {}
  }
}

const FLAGS = { userPresent: 1, backupEligible: 8, backedUp: 16, attested: 64, extended: 128 }
/** The digest of the domain, the flags, and a counter, which synchronised passkeys leave at 0. */
const AUTHENTICATOR_DATA_BYTES = 37

/** Null if it is of another domain, made without a user, or contradicts itself. */
function readAuthenticatorData(rpId: string | null, bytes: Buffer) {
  if (rpId === null || bytes.length < AUTHENTICATOR_DATA_BYTES) return null
  const has = (flag: number) => (bytes.readUInt8(32) & flag) !== 0
  const isOfDomain = bytes.subarray(0, 32).equals(hash('sha256', rpId, 'buffer'))
  const isPossible = has(FLAGS.backupEligible) || !has(FLAGS.backedUp)
  if (!isOfDomain || !has(FLAGS.userPresent) || !isPossible) return null
  const rest = bytes.subarray(AUTHENTICATOR_DATA_BYTES)
  return { isAttested: has(FLAGS.attested), isExtended: has(FLAGS.extended), rest }
}

/** What is attested: the model of the authenticator, the length of the id, the id, and the key, which is not read. */
function attestedId(rest: Buffer): string | null {
  const end = rest.length > 18 ? 18 + rest.readUInt16BE(16) : rest.length
  return end < rest.length ? rest.subarray(18, end).toString('base64url') : null
}

/** Of at most 1,023 bytes in base64url. The database may fail on other text. */
export const CREDENTIAL_ID = /^[\w-]{1,1364}$/

/**
 * How public keys begin, by the numbers of COSE. No other text is parsed: some versions of Node end the process on a key
 * without a point, and odd keys take long to parse or to verify with.
 */
const KEY_TEXTS: Record<number, RegExp> = {
  [-7]: /^MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE[\w-]{86}$/,
  [-8]: /^MCowBQYDK2VwAyEA[\w-]{43}$/,
  [-257]: /^MII[\w-]{3}ANBgkqhkiG9w0BAQEFAAOC[\w-]{364,706}$/,
}

function isUsual({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean {
  const { modulusLength = 0, publicExponent } = asymmetricKeyDetails ?? {}
  const isUsualRsa = publicExponent === 65_537n && modulusLength >= 2048 && modulusLength <= 4096
  return asymmetricKeyType !== 'rsa' || isUsualRsa
}

const MODULUS = randomBytes(256).fill(0xff, 0, 1).fill(0xff, 255).toString('base64url')
const EC_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey
const DECOYS = [
  EC_KEY,
  generateKeyPairSync('ed25519').publicKey,
  createPublicKey({ format: 'jwk', key: { kty: 'RSA', e: 'AQAB', n: MODULUS } }),
]
const DECOY = toText(EC_KEY)

/** Verifies by a key of each kind: otherwise the time would tell which kind the user has. */
function isSignedBy(own: KeyObject | null, signed: Buffer, signature: Buffer): boolean {
  const results = DECOYS.map(decoy => {
    const kind = decoy.asymmetricKeyType
    const key = own !== null && own.asymmetricKeyType === kind ? own : decoy
    return verify(kind === 'ed25519' ? null : 'sha256', signed, key, signature) && key === own
  })
  return results.includes(true)
}

function readKey(text: string): KeyObject | null {
  try {
    return createPublicKey({ key: bytesOf(text), format: 'der', type: 'spki' })
  } catch {
    return null
  }
}

function toText(key: KeyObject): string {
  return key.export({ format: 'der', type: 'spki' }).toString('base64url')
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'base64url')
}
