// Signs tokens in this thread. jose, which verifies them, signs in another thread, which takes more processor time.
import { createHmac, type KeyObject, sign } from 'node:crypto'

export type AccessAlgorithm = 'ES256' | 'EdDSA' | 'RS256'

export type SigningKey = {
  keyId: string
  algorithm: AccessAlgorithm | 'HS256'
  signingKey: KeyObject
}

export function signToken(
  { keyId, algorithm, signingKey }: SigningKey,
  type: 'at+jwt' | 'rt+jwt',
  claims: object,
): string {
  const text = `${encode({ alg: algorithm, typ: type, kid: keyId })}.${encode(claims)}`
  return `${text}.${signatureOf(algorithm, signingKey, text).toString('base64url')}`
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url')
}

/** RFC 7518, section 3, and RFC 8037 for EdDSA. */
function signatureOf(algorithm: SigningKey['algorithm'], key: KeyObject, text: string): Buffer {
  const bytes = Buffer.from(text)
  switch (algorithm) {
    case 'HS256':
      return createHmac('sha256', key).update(bytes).digest()
    case 'ES256':
      return toJoined(sign('sha256', bytes, key))
    case 'EdDSA':
      return sign(null, bytes, key)
    case 'RS256':
      return sign('sha256', bytes, key)
  }
}

const NUMBER_BYTES = 32

/**
 * A signature with ES256 is two numbers, which OpenSSL writes as DER: 30 LENGTH 02 LENGTH R 02 LENGTH S. Tokens have 32
 * bytes of each. Node's own conversion (`dsaEncoding`) takes as long as the signature.
 */
function toJoined(der: Buffer): Buffer {
  const r = der.subarray(4, 4 + der.readUInt8(3))
  const s = der.subarray(4 + r.length + 2)
  const joined = Buffer.alloc(2 * NUMBER_BYTES)
  for (const [end, number] of [[NUMBER_BYTES, r] as const, [2 * NUMBER_BYTES, s] as const]) {
    // A number has a leading zero byte if its first bit is set, and less than 32 bytes if it is small.
    const digits = number.subarray(-NUMBER_BYTES)
    digits.copy(joined, end - digits.length)
  }
  return joined
}
