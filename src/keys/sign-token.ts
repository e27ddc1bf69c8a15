// Signs tokens in this thread. jose, which verifies them, signs in another thread: an access token with ES256 then
// takes 0.26 ms of processor time instead of 0.16 ms.
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
      return sign('sha256', bytes, { key, dsaEncoding: 'ieee-p1363' })
    case 'EdDSA':
      return sign(null, bytes, key)
    case 'RS256':
      return sign('sha256', bytes, key)
  }
}
