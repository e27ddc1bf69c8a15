// A passkey in software: what a browser sends of one, right or wrong in the ways that a test asks for.
import assert from 'node:assert/strict'
import { generateKeyPairSync, hash, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { Assertion, NewPasskey } from '../../src/login/passkey.ts'
import type { TestDatabase } from './engines.ts'
import type { Answer, Call } from './service.ts'
import { AUTH } from './session-client.ts'

export const ORIGIN = 'https://login.example.com'
export const RP_ID = 'login.example.com'
/** User present, user verified, and may be copied to other devices. */
export const FLAGS = { up: 1, uv: 4, be: 8, bs: 16, at: 64, ed: 128 }

type Pair = { publicKey: KeyObject; privateKey: KeyObject }
let rsa: Pair | null = null
/** Making an RSA key takes long, so that all have the same. */
const KEYS = {
  ES256: { algorithm: -7, make: (): Pair => generateKeyPairSync('ec', { namedCurve: 'P-256' }) },
  EdDSA: { algorithm: -8, make: (): Pair => generateKeyPairSync('ed25519') },
  RS256: {
    algorithm: -257,
    make: (): Pair => (rsa ??= generateKeyPairSync('rsa', { modulusLength: 2048 })),
  },
}
export type KeyKind = keyof typeof KEYS
export const KEY_KINDS = Object.keys(KEYS) as KeyKind[]

/** What is not as it should be. */
export type Tampered = {
  /** Fields of the client data. */
  client?: Record<string, unknown>
  /** In place of the JSON of the client data. */
  clientText?: string
  rpId?: string
  flags?: number
  /** After the authenticator data. */
  rest?: Buffer
  /** The key that signs. */
  key?: KeyObject
}

export type Passkey = ReturnType<typeof createPasskey>

export function createPasskey(
  kind: KeyKind = 'ES256',
  { origin = ORIGIN, rpId = RP_ID, idBytes = 32, keys = KEYS[kind].make() } = {},
) {
  const credentialId = randomBytes(idBytes)
  const id = credentialId.toString('base64url')
  const clientDataOf = (type: string, challenge: string, { client, clientText }: Tampered) =>
    Buffer.from(
      clientText ?? JSON.stringify({ type, challenge, origin, crossOrigin: false, ...client }),
    )
  const dataOf = (flags: number, { rpId: other = rpId, rest = Buffer.alloc(0) }: Tampered) =>
    Buffer.concat([hash('sha256', other, 'buffer'), Buffer.from([flags, 0, 0, 0, 0]), rest])
  return {
    id,
    privateKey: keys.privateKey,
    /** What `navigator.credentials.create()` returns. */
    create(challenge: string, tampered: Tampered & Partial<NewPasskey> = {}): NewPasskey {
      const { client: _, clientText: __, rpId: ___, flags, rest, key: ____, ...fields } = tampered
      const length = Buffer.from([idBytes >> 8, idBytes & 0xff])
      const attested = [Buffer.alloc(16), length, credentialId, Buffer.from([0xa4])]
      const data = dataOf(flags ?? FLAGS.up | FLAGS.be | FLAGS.bs | FLAGS.at, {
        ...tampered,
        rest: rest ?? Buffer.concat(attested),
      })
      return {
        ...{ id, name: 'A passkey', algorithm: KEYS[kind].algorithm },
        publicKey: keys.publicKey.export({ format: 'der', type: 'spki' }).toString('base64url'),
        clientDataJSON: clientDataOf('webauthn.create', challenge, tampered).toString('base64url'),
        authenticatorData: data.toString('base64url'),
        ...fields,
      }
    },
    /** What `navigator.credentials.get()` returns. */
    get(challenge: string, tampered: Tampered = {}): Assertion {
      const clientData = clientDataOf('webauthn.get', challenge, tampered)
      const data = dataOf(tampered.flags ?? FLAGS.up, tampered)
      const signed = Buffer.concat([data, hash('sha256', clientData, 'buffer')])
      const signature = sign(
        kind === 'EdDSA' ? null : 'sha256',
        signed,
        tampered.key ?? keys.privateKey,
      )
      return {
        id,
        clientDataJSON: clientData.toString('base64url'),
        authenticatorData: data.toString('base64url'),
        signature: signature.toString('base64url'),
      }
    },
  }
}

/** As the script of the pages does. */
export const join = ({ id, clientDataJSON, authenticatorData, signature }: Assertion) =>
  [id, clientDataJSON, authenticatorData, signature].join('.')
export const joinNew = ({
  id,
  publicKey,
  algorithm,
  clientDataJSON,
  authenticatorData,
}: NewPasskey) => [id, publicKey, algorithm, clientDataJSON, authenticatorData].join('.')

type Caller = { call: (request: Call) => Promise<Answer> }

/** Asks the service for a challenge. */
export async function challengeOf({ call }: Caller): Promise<string> {
  const { status, json } = await call({ method: 'GET', path: `${AUTH}/passkey-challenge` })
  assert.equal(status, 200)
  return json.data.challenge ?? ''
}

/** So many passkeys that no test uses. */
export async function addPasskeys(
  database: TestDatabase,
  userId: string,
  count: number,
): Promise<void> {
  for (let number = 1; number <= count; number++) {
    await addPasskey(database, userId, {
      ...{ id: `credential ${number}`, name: `Key ${number}`, publicKey: 'k'.repeat(120) },
    })
  }
}

/** As if its user had added it. */
export async function addPasskey(
  { rows }: TestDatabase,
  userId: string,
  { id, name, publicKey }: Pick<NewPasskey, 'id' | 'name' | 'publicKey'>,
  rpId = RP_ID,
): Promise<void> {
  await rows(`insert into second_factors (user_id, kind, secret, name, credential_id, rp_id)
    values ('${userId}', 'passkey', '${publicKey}', '${name}', '${id}', '${rpId}')`)
}
