import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { SignJWT } from 'jose'
import { makeKeys } from '../../test/support/keys.ts'
import { createAccessTokenReader, toInvalid } from './access-token.ts'
import { readRefreshToken } from './refresh-token.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const ISSUED_AT = NOW.getTime() / 1000
const TOKENS = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }
const IDS = { sub: randomUUID(), jti: randomUUID() }
const TIMES = { iat: ISSUED_AT, exp: ISSUED_AT + 3600 }
const KEYS = await makeKeys(NOW)
const { accessKey, refreshKey } = KEYS.signingAt(NOW)

const ACCESS = {
  ...{ name: 'access', typ: 'at+jwt', key: accessKey },
  claims: { iss: TOKENS.issuer, aud: TOKENS.audience, sid: randomUUID(), ...IDS, ...TIMES },
  read: createAccessTokenReader(KEYS, TOKENS),
}
const REFRESH = {
  ...{ name: 'refresh', typ: 'rt+jwt', key: refreshKey },
  claims: { iss: TOKENS.issuer, ...IDS, ...TIMES },
  read: (token: string, now: Date) => readRefreshToken(KEYS, TOKENS.issuer, token, now),
}

for (const [kind, other] of [
  [ACCESS, REFRESH],
  [REFRESH, ACCESS],
] as const) {
  const sign = (header: object, changed: object = {}, { typ, key, claims } = kind) =>
    new SignJWT({ ...claims, ...changed })
      .setProtectedHeader({ alg: key.algorithm, typ, kid: key.keyId, ...header })
      .sign(key.signingKey)
  const resultOf = async (token: string) => {
    const read = await kind.read(token, NOW)
    return read.kind === 'invalid' ? read.reason : read.kind
  }

  test(`the log says why a token for ${kind.name} is invalid`, async () => {
    const { typ, key } = kind
    const isForAccess = kind === ACCESS
    const cases: [reason: string, name: string, token: Promise<string> | string][] = [
      ['read', 'valid', sign({})],
      ['wrong-type', 'of another type', sign({ typ: 'JWT' })],
      ['wrong-type', 'of the other kind', sign({}, {}, other)],
      ['wrong-type', 'of the other kind, with our key id', sign({ kid: key.keyId }, {}, other)],
      ['wrong-algorithm', 'of another algorithm', sign({ typ, kid: key.keyId }, {}, other)],
      ['unknown-key', 'of an unknown key', sign({ kid: 'unknown' })],
      ['unknown-key', 'without a key id', sign({ kid: undefined })],
      ['bad-signature', 'changed', (await sign({})).replace(/.{4}$/, 'AAAA')],
      ['wrong-issuer', 'of another issuer', sign({}, { iss: 'https://evil.example' })],
      // No refresh token has these claims.
      [
        isForAccess ? 'wrong-audience' : 'bad-signature',
        'for others',
        sign({}, { aud: 'another' }),
      ],
      [
        isForAccess ? 'not-yet-valid' : 'bad-signature',
        'valid in a minute',
        sign({}, { nbf: ISSUED_AT + 60 }),
      ],
      ['expired', 'expired', sign({}, { exp: ISSUED_AT - 60 })],
      ['malformed', 'without an id', sign({}, { jti: undefined })],
      ['malformed', 'with a user that is no UUID', sign({}, { sub: 'a user' })],
      ['malformed', 'with ids that are no UUIDs', sign({}, { jti: 'a token', sid: 'a session' })],
      ['malformed', 'no token', 'no token'],
      ['malformed', 'without claims', (await sign({})).replace(/\..*/, '.x.x')],
    ]
    for (const [reason, name, token] of cases) {
      assert.equal(await resultOf(await token), reason, name)
    }
  })

  test(`a token for ${kind.name} of more than 8,192 characters is not parsed`, async () => {
    const token = await sign({ kid: 'unknown' })
    assert.equal(await resultOf(token.padEnd(8_192, 'A')), 'unknown-key')
    assert.equal(await resultOf(token.padEnd(8_193, 'A')), 'malformed')
  })
}

test('a fault of the verification is not a reason against the token', () => {
  const fault = new Error('out of memory')
  assert.throws(() => toInvalid(fault, ''), fault)
})
