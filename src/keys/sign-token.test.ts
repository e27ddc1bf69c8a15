import assert from 'node:assert/strict'
import { generateKeyPairSync, verify } from 'node:crypto'
import { test } from 'node:test'
import { signToken } from './sign-token.ts'

test('a P-256 signature is two numbers of 32 bytes, also when one of them is short', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = { keyId: 'k', algorithm: 'ES256', signingKey: privateKey } as const
  let short = 0
  // One number in 256 begins with a zero byte, which its encoding leaves out.
  for (let i = 0; short < 8 && i < 20_000; i++) {
    const [header, claims, signature = ''] = signToken(key, 'at+jwt', { i }).split('.')
    const bytes = Buffer.from(signature, 'base64url')
    assert.equal(bytes.length, 64)
    const signed = Buffer.from(`${header}.${claims}`)
    const verifying = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const
    assert.ok(verify('sha256', signed, verifying, bytes))
    if (bytes[0] === 0 || bytes[32] === 0) short++
  }
  assert.equal(short, 8)
})
