import assert from 'node:assert/strict'
import crypto, { createPublicKey, generateKeyPairSync, type JsonWebKey } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { describe, mock, test } from 'node:test'
import fc from 'fast-check'
import {
  createPasskey,
  FLAGS,
  KEY_KINDS,
  type KeyKind,
  ORIGIN,
  RP_ID,
  type Tampered,
} from '../../test/support/passkey.ts'
import { VECTORS } from '../../test/support/webauthn-vectors.ts'
import { createChallenges } from './challenges.ts'
import { type Assertion, checkAssertion, checkNewPasskey, type NewPasskey } from './passkey.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const WRONG = { flaw: 'wrong' }
const later = (seconds: number) => new Date(NOW.getTime() + seconds * 1000)
const toBase64url = (hex: string) => Buffer.from(hex, 'hex').toString('base64url')
const textOf = (key: crypto.KeyObject) =>
  key.export({ format: 'der', type: 'spki' }).toString('base64url')

/** What a browser makes of the key in the authenticator data. */
const KEYS_IN: Record<KeyKind, (hex: string) => JsonWebKey> = {
  ES256: hex => {
    const [, x = '', y = ''] = /215820(.{64})225820(.{64})/.exec(hex) ?? []
    return { kty: 'EC', crv: 'P-256', x: toBase64url(x), y: toBase64url(y) }
  },
  EdDSA: hex => {
    const [, x = ''] = /215820(.{64})/.exec(hex) ?? []
    return { kty: 'OKP', crv: 'Ed25519', x: toBase64url(x) }
  },
  RS256: hex => {
    const [, n = '', e = ''] = /205901b4(.{872})2143(.{6})/.exec(hex) ?? []
    return { kty: 'RSA', n: toBase64url(n), e: toBase64url(e) }
  },
}
const ALGORITHMS: Record<KeyKind, number> = { ES256: -7, EdDSA: -8, RS256: -257 }

describe('the test vectors of the W3C', () => {
  for (const kind of KEY_KINDS) {
    const { created, used } = VECTORS[kind]
    const challenges = {
      make: () => '',
      timeOf: (challenge: string) =>
        [created, used].some(it => it.clientDataJSON.includes(`"${challenge}"`)) ? NOW : null,
    }
    const rules = { rpId: 'example.org', origin: 'https://example.org', challenges }
    const bytes = (of: { clientDataJSON: string; authenticatorData: string }) => ({
      clientDataJSON: Buffer.from(of.clientDataJSON).toString('base64url'),
      authenticatorData: toBase64url(of.authenticatorData),
    })
    const publicKey = textOf(
      createPublicKey({ format: 'jwk', key: KEYS_IN[kind](created.authenticatorData) }),
    )
    // After 37 bytes, a model of 16 bytes and a length.
    const id = toBase64url(created.authenticatorData.slice(2 * 55, 2 * 87))
    const algorithm = ALGORITHMS[kind]
    const newPasskey = { id, name: 'A', publicKey, algorithm, ...bytes(created) }
    const assertion = { id, signature: toBase64url(used.signature), ...bytes(used) }

    test(`${kind}: the new passkey and its use are right`, () => {
      assert.deepEqual(checkNewPasskey(rules, newPasskey, NOW), { at: NOW })
      assert.deepEqual(checkAssertion(rules, assertion, publicKey, NOW), { at: NOW })
    })

    test(`${kind}: with any byte changed, they are wrong`, () => {
      for (const part of ['clientDataJSON', 'authenticatorData', 'signature'] as const) {
        const right = Buffer.from(assertion[part], 'base64url')
        for (let i = 0; i < right.length; i++) {
          const changed = Buffer.from(right)
          changed[i] = (changed[i] ?? 0) ^ 1
          const sent = { ...assertion, [part]: changed.toString('base64url') }
          assert.deepEqual(checkAssertion(rules, sent, publicKey, NOW), WRONG, `${part} ${i}`)
        }
      }
    })
  }
})

const challenges = createChallenges('ab'.repeat(32))
const RULES = { rpId: RP_ID, origin: ORIGIN, challenges }
const challenge = challenges.make(NOW)

for (const kind of KEY_KINDS) {
  describe(`a passkey of ${kind}`, () => {
    const passkey = createPasskey(kind)
    const other = createPasskey(kind, {
      ...(kind === 'RS256' && { keys: generateKeyPairSync('rsa', { modulusLength: 2048 }) }),
    })
    const { publicKey } = passkey.create(challenge)
    const check = (sent: Assertion, key: string | null = publicKey, now = NOW, rules = RULES) =>
      checkAssertion(rules, sent, key, now)
    const { up, uv, be, bs, at, ed } = FLAGS

    test('is right with and without user verification, backup and extensions', () => {
      const fields = { extra: 'data', tokenBinding: { status: 'supported' } }
      const RIGHT: Tampered[] = [
        {},
        ...[up | uv, up | be, up | be | bs].map(flags => ({ flags })),
        { flags: up | ed, rest: Buffer.from([0xa0]) },
        ...[fields, { crossOrigin: undefined }].map(client => ({ client })),
      ]
      for (const tampered of RIGHT) {
        assert.deepEqual(check(passkey.get(challenge, tampered)), { at: NOW })
      }
    })

    const WRONG_USES: Record<string, Tampered> = {
      'the type of a new one': { client: { type: 'webauthn.create' } },
      'no type': { client: { type: undefined } },
      'no challenge': { client: { challenge: undefined } },
      'a challenge that is no text': { client: { challenge: [challenge] } },
      'a challenge of another service': {
        client: { challenge: createChallenges('cd'.repeat(32)).make(NOW) },
      },
      'an embedding site': { client: { crossOrigin: true } },
      'an embedding site, oddly said': { client: { crossOrigin: 'true' } },
      'an embedding site, named': { client: { topOrigin: 'https://evil.example' } },
      'itself as the embedding site': { client: { topOrigin: ORIGIN } },
      'another domain': { rpId: 'example.com' },
      'no user': { flags: uv },
      'a backup that cannot be': { flags: up | bs },
      'an attested key, which is only for a new one': { flags: up | at, rest: Buffer.alloc(60) },
      'trailing bytes': { rest: Buffer.alloc(1) },
      'extensions that are missing': { flags: up | ed },
      'the signature of another key': { key: other.privateKey },
      'no JSON': { clientText: 'text' },
      'JSON that is no object': { clientText: '"webauthn.get"' },
      'no client data': { clientText: '' },
    }
    for (const [what, tampered] of Object.entries(WRONG_USES)) {
      test(`with ${what} is wrong`, () => {
        assert.deepEqual(check(passkey.get(challenge, tampered)), WRONG)
      })
    }

    test('with changed parts, another key or none is wrong', () => {
      const right = passkey.get(challenge)
      const signature = Buffer.from(right.signature, 'base64url')
      for (const changed of [
        ...[signature.subarray(1), signature.subarray(0, -1), Buffer.alloc(0), Buffer.alloc(64)],
        ...[Buffer.concat([signature, Buffer.alloc(1)]), Buffer.alloc(10_000, 1)],
      ]) {
        const sent = { ...right, signature: changed.toString('base64url') }
        assert.deepEqual(check(sent), WRONG)
      }
      for (const authenticatorData of ['', 'AAAA', right.authenticatorData.slice(0, -4)]) {
        assert.deepEqual(check({ ...right, authenticatorData }), WRONG)
      }
      const keys = KEY_KINDS.map(it => createPasskey(it).create(challenge).publicKey)
      const others = kind === 'RS256' ? keys.filter(key => key !== publicKey) : keys
      for (const key of [...others, '', 'AAAA', null]) {
        assert.deepEqual(check(right, key), WRONG)
      }
      assert.deepEqual(check(right, publicKey, NOW, { ...RULES, rpId: 'example.com' }), WRONG)
      const without = { rules: { ...RULES, rpId: null }, now: NOW }
      assert.deepEqual(checkAssertion(without.rules, right, publicKey, without.now), WRONG)
    })

    test('of another page is told apart, so that an operator finds a wrong address', () => {
      for (const origin of [
        ...['https://evil.example', 'http://login.example.com', 'https://login.example.com:444'],
        ...[`${ORIGIN}/`, 'https://LOGIN.example.com', 'null', null, undefined, [ORIGIN]],
      ]) {
        const sent = passkey.get(challenge, { client: { origin } })
        assert.deepEqual(check(sent), { flaw: 'elsewhere' })
      }
      const nowhere = { ...RULES, origin: null }
      assert.deepEqual(checkAssertion(nowhere, passkey.get(challenge), publicKey, NOW), {
        flaw: 'elsewhere',
      })
    })

    test('is good for five minutes after its challenge, and ten seconds before', () => {
      const sent = passkey.get(challenge)
      for (const seconds of [-10, 0, 300]) {
        assert.deepEqual(check(sent, publicKey, later(seconds)), { at: NOW })
      }
      for (const seconds of [-31_536_000, -11, 301, 31_536_000]) {
        assert.deepEqual(check(sent, publicKey, later(seconds)), { flaw: 'late' })
      }
    })

    test('takes as many verifications as one that is not stored, and no longer ones', () => {
      const keys = [publicKey, other.create(challenge).publicKey, '', null]
      const counted = mock.method(crypto, 'verify').mock
      syncBuiltinESMExports()
      try {
        for (const key of keys) {
          counted.resetCalls()
          check(passkey.get(challenge), key)
          const kinds = counted.calls.map(({ arguments: [, , it] }) => Object(it).asymmetricKeyType)
          assert.deepEqual(kinds, ['ec', 'ed25519', 'rsa'])
          const { asymmetricKeyDetails: rsa } = Object(counted.calls[2]?.arguments[2])
          assert.equal(rsa.modulusLength, 2048)
        }
      } finally {
        mock.restoreAll()
        syncBuiltinESMExports()
      }
    })

    test('that is new is right with and without user verification and extensions', () => {
      for (const flags of [up | at, up | uv | at, up | be | at, up | be | bs | at]) {
        assert.deepEqual(checkNewPasskey(RULES, passkey.create(challenge, { flags }), NOW), {
          at: NOW,
        })
      }
      for (const [idBytes, expected] of [
        [0, WRONG],
        [1, { at: NOW }],
        [1_023, { at: NOW }],
        [1_024, WRONG],
      ] as const) {
        const sent = createPasskey(kind, { idBytes }).create(challenge)
        assert.deepEqual(checkNewPasskey(RULES, sent, NOW), expected)
      }
    })

    const attested = (length: number, id: Buffer) =>
      Buffer.concat([Buffer.alloc(16), Buffer.from([length >> 8, length & 255]), id])
    const NEW: Record<string, Tampered & Partial<NewPasskey>> = {
      'the type of a use': { client: { type: 'webauthn.get' } },
      'a challenge of another service': { client: { challenge: 'A'.repeat(51) } },
      'an embedding site': { client: { crossOrigin: true } },
      'another domain': { rpId: 'example.com' },
      'no user': { flags: at },
      'a backup that cannot be': { flags: up | bs | at },
      'no attested key': { flags: up },
      'nothing attested': { flags: up | at, rest: Buffer.alloc(0) },
      'half an attested key': { rest: attested(32, Buffer.alloc(31)) },
      'an id and no key': { rest: attested(32, Buffer.from(passkey.id, 'base64url')) },
      'a length of an id that is too large': { rest: attested(65_535, Buffer.alloc(600)) },
      'another id': { id: other.id },
      'an id in another spelling': { id: `${passkey.id}=` },
      'no key': { publicKey: '' },
      'a private key': { publicKey: textOf(createPublicKey(other.privateKey)).slice(4) },
      'bytes after the key': { publicKey: `${publicKey.replace(/=+$/, '')}AAAA` },
      'an algorithm of another key': { algorithm: ALGORITHMS[kind] === -7 ? -257 : -7 },
      'an algorithm that is not supported': { algorithm: -37 },
    }
    for (const [what, tampered] of Object.entries(NEW)) {
      test(`that is new, with ${what}, is wrong`, () => {
        assert.deepEqual(checkNewPasskey(RULES, passkey.create(challenge, tampered), NOW), WRONG)
      })
    }

    test('that is new is refused from another page, and too late', () => {
      const elsewhere = passkey.create(challenge, { client: { origin: 'https://evil.example' } })
      assert.deepEqual(checkNewPasskey(RULES, elsewhere, NOW), { flaw: 'elsewhere' })
      const sent = passkey.create(challenge)
      assert.deepEqual(checkNewPasskey(RULES, sent, later(301)), { flaw: 'late' })
    })
  })
}

/** A curve like P-256, but with a generator of its own, which the key brings along. */
function withOwnCurve(): crypto.KeyObject {
  const { publicKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    paramEncoding: 'explicit',
  })
  const hex = publicKey.export({ format: 'der', type: 'spki' }).toString('hex')
  const generator = /046b17d1f2e12c4247f8bce6e563a440f2.{96}/.exec(hex)?.[0] ?? ''
  const key = Buffer.from(hex.replace(generator, hex.slice(-130)), 'hex')
  return createPublicKey({ key, format: 'der', type: 'spki' })
}

test('keys that are weak, slow or of another kind are refused', () => {
  const passkey = createPasskey()
  const keys = [
    [-7, generateKeyPairSync('ec', { namedCurve: 'P-384' })],
    [-7, generateKeyPairSync('ec', { namedCurve: 'secp256k1' })],
    [-8, generateKeyPairSync('ed448')],
    [-8, generateKeyPairSync('x25519')],
    [-257, generateKeyPairSync('rsa', { modulusLength: 1024 })],
    [-257, generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: 3 })],
    [-257, generateKeyPairSync('rsa-pss', { modulusLength: 2048 })],
  ] as const
  // A verification with an exponent of 2,048 bits takes a hundred times as long.
  const n = Buffer.alloc(256, 0xff).toString('base64url')
  const slow = createPublicKey({ format: 'jwk', key: { kty: 'RSA', n, e: n } })
  const ofBytes = (bytes: number) => {
    const modulus = Buffer.alloc(bytes, 0xff).toString('base64url')
    return createPublicKey({ format: 'jwk', key: { kty: 'RSA', n: modulus, e: 'AQAB' } })
  }
  for (const bytes of [256, 512]) {
    const sent = passkey.create(challenge, { publicKey: textOf(ofBytes(bytes)), algorithm: -257 })
    assert.deepEqual(checkNewPasskey(RULES, sent, NOW), { at: NOW })
  }
  for (const [algorithm, key] of [
    ...keys.map(([algorithm, { publicKey }]) => [algorithm, publicKey] as const),
    ...[slow, ofBytes(255), ofBytes(513)].map(key => [-257, key] as const),
    [-7, withOwnCurve()] as const,
  ]) {
    const sent = passkey.create(challenge, { publicKey: textOf(key), algorithm })
    assert.deepEqual(checkNewPasskey(RULES, sent, NOW), WRONG)
  }
})

test('no text is right, and none is a fault', () => {
  const text = fc.oneof(fc.string(), fc.base64String(), fc.string({ unit: 'binary' }))
  const passkey = createPasskey()
  const stored = passkey.create(challenge)
  const right = passkey.get(challenge)
  const some = <T extends object>(of: T) =>
    fc.record(
      Object.fromEntries(
        Object.entries(of).map(([name, it]) => [name, fc.oneof(fc.constant(it), text)]),
      ),
    )
  fc.assert(
    fc.property(some(right), some(stored), (assertion, created) => {
      const isRight = (checked: object) => 'at' in checked
      const sent = { ...right, ...assertion }
      assert.equal(
        isRight(checkAssertion(RULES, sent, stored.publicKey, NOW)),
        ['clientDataJSON', 'authenticatorData', 'signature'].every(
          name => Object(sent)[name] === Object(right)[name],
        ),
      )
      checkNewPasskey(RULES, { ...stored, ...created, algorithm: -7 }, NOW)
    }),
    { numRuns: 500 },
  )
})
