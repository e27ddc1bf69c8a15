import assert from 'node:assert/strict'
import crypto, { randomUUID } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { describe, mock, test } from 'node:test'
import { insertTestUser } from '../../test/storage/fixtures.ts'
import { createAuthenticator, STEP_MS } from '../../test/support/authenticator.ts'
import { openTestStore } from '../../test/support/engines.ts'
import {
  addPasskey,
  addPasskeys,
  createPasskey,
  KEY_KINDS,
  ORIGIN,
  RP_ID,
} from '../../test/support/passkey.ts'
import { wrapMethods } from '../domain/operations.ts'
import { GUESSES, NO_GUESS } from '../domain/second-factor.ts'
import type { User } from '../domain/user.ts'
import { decrypt, encrypt, keyIdOf } from '../keys/encryption.ts'
import { createKeys, importKeys, type Keys, NO_KEYS, type StoredKey } from '../keys/key-set.ts'
import { createFirstKeys } from '../keys/rotation.ts'
import { createChallenges } from './challenges.ts'
import type { Assertion } from './passkey.ts'
import { digestOfRecoveryCode, makeRecoveryCodes } from './recovery-codes.ts'
import { checkSecondStep, factorContext } from './second-step.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const clock = () => NOW
const challenges = createChallenges('00'.repeat(32))
const passkeys = { rpId: RP_ID, origin: ORIGIN, challenges }
const DAY_MS = 24 * 3_600_000
const { keys: FIRST_KEYS } = await createFirstKeys(new Date(NOW.getTime() - 3_600_000))
const OLD_KEY = FIRST_KEYS.find(({ use }) => use === 'enc') ?? {}
const KEYS = createKeys(await importKeys({ keys: FIRST_KEYS }))

/** With another encryption key, which came into use so many seconds from now. */
async function withNewerKey(seconds: number) {
  const k = crypto.randomBytes(32).toString('base64url')
  const newer: StoredKey = { ...OLD_KEY, kid: 'newer', k, nbf: NOW.getTime() / 1000 + seconds }
  const keys = [newer, ...FIRST_KEYS]
  return { both: await toKeys(keys), newest: await toKeys(keys.filter(key => key !== OLD_KEY)) }
}
const toKeys = async (keys: StoredKey[]) => createKeys(await importKeys({ keys }))

function encryptionKeyOf(keys: Keys) {
  const key = keys.encryptionAt(NOW)
  assert.ok(key)
  return key
}

describe('the second step', async () => {
  const { store, database } = await openTestStore('sqlite')
  const asked: string[] = []
  const watched = wrapMethods(store, (name, operation) => (...values) => {
    asked.push(name)
    return operation(...values)
  })
  type Kind = { app?: boolean; passkeys?: number }

  async function newUser({ app: hasApp = false, passkeys = 0 }: Kind = {}) {
    const email = `${randomUUID()}@example.com`
    const id = await insertTestUser(store, email, NOW)
    const user = await store.users.findById(id)
    assert.ok(user)
    const bytes = crypto.randomBytes(20)
    const factorId = randomUUID()
    const [good = '', used = ''] = makeRecoveryCodes()
    if (hasApp) {
      const secret = encrypt(encryptionKeyOf(KEYS), bytes, factorContext(id, factorId))
      await database.rows(`insert into second_factors (id, user_id, kind, secret)
        values ('${factorId}', '${id}', 'totp', '${secret}')`)
    }
    await addPasskeys(database, id, passkeys)
    if (hasApp || passkeys > 0) {
      await database.rows(`insert into recovery_codes (user_id, digest, used_at) values
        ('${id}', '${digestOfRecoveryCode(good)}', null),
        ('${id}', '${digestOfRecoveryCode(used)}', '${NOW.toISOString()}')`)
    }
    return { user, factorId, bytes, good, used, app: createAuthenticator(clock, bytes) }
  }

  const check = (
    user: User | null,
    proof: string | Assertion,
    { keys = KEYS, isKnownDevice = false, rules = passkeys } = {},
  ) =>
    checkSecondStep(
      { store: watched, keys, passkeys: rules, clock },
      user,
      typeof proof === 'string' ? { otp: proof, passkey: null } : { otp: '', passkey: proof },
      isKnownDevice,
    )
  const reasonOf = async (...parameters: Parameters<typeof check>) => {
    const step = await check(...parameters)
    return step.kind === 'unproved' ? step.reason : step.kind
  }
  const without = await newUser()
  const withApp = await newUser({ app: true })
  const withEleven = await newUser({ app: true, passkeys: 10 })
  const withPasskeys = await newUser({ passkeys: 10 })
  const holders = { without, withApp, withEleven, withPasskeys }

  test('one read, and the same decryptions and codes for every user and everything that is typed', async () => {
    const users = [null, ...Object.values(holders).map(({ user }) => user)]
    const typed = [
      ...['', ' ', '123456', 'no code', 'x'.repeat(10_000)],
      ...Object.values(holders).flatMap(({ app, good, used }) => [
        ...[app.code(), app.code(1), app.code(-2), app.code(10), app.wrongCode(), good, used],
      ]),
    ]
    const names = ['createDecipheriv', 'createHmac', 'createCipheriv', 'timingSafeEqual'] as const
    // The decoy of a key is encrypted once.
    await check(null, '')
    const calls = names.map(name => mock.method(crypto, name).mock)
    syncBuiltinESMExports()
    try {
      for (const user of users) {
        for (const otp of typed) {
          asked.length = 0
          for (const counted of calls) counted.resetCalls()
          const { kind } = await check(user, otp)
          const [decryptions, codes, encryptions, comparisons] = calls.map(it => it.callCount())
          assert.deepEqual(asked, ['secondFactors.findProofs'])
          assert.deepEqual([decryptions, codes, encryptions], [1, 21, 0], `${otp}: ${kind}`)
          // Only what is typed decides whether there is something to compare.
          assert.equal(comparisons, otp.replace(/\s/g, '').length === 6 ? 21 : 0)
        }
      }
    } finally {
      mock.restoreAll()
      syncBuiltinESMExports()
    }
  })

  test('without a user or a factor nothing is needed, whatever comes along', async () => {
    for (const otp of ['', withApp.app.code(), withApp.good]) {
      assert.deepEqual(await check(null, otp), { kind: 'not-needed' })
      assert.deepEqual(await check(without.user, otp), { kind: 'not-needed' })
    }
  })

  test('the proof of another user is none', async () => {
    for (const otp of [withEleven.app.code(), withEleven.good, withEleven.used]) {
      assert.equal(await reasonOf(withApp.user, otp), 'code-wrong')
    }
  })

  test('only passkeys: recovery codes are good, and no code of an app is', async () => {
    const { user, app, good, used } = withPasskeys
    assert.equal(await reasonOf(user, good), 'proved')
    assert.equal(await reasonOf(user, used), 'code-used')
    assert.equal(await reasonOf(user, app.code()), 'code-wrong')
    // Nor one of the decoy, which is computed in its place.
    for (const otp of ['', ' ']) assert.equal(await reasonOf(user, otp), 'code-missing')
  })

  for (const [name, holder] of Object.entries({ withApp, withEleven })) {
    test(`${name}: only a wrong code counts as a guess, and only one that is early or late tells of a clock`, async () => {
      const { user, app, good, used, factorId } = holder
      const proofs = {
        [app.code()]: { kind: 'totp', id: factorId, usedTo: NOW },
        [app.code(-1)]: { kind: 'totp', id: factorId, usedTo: new Date(NOW.getTime() - STEP_MS) },
        [` ${app.code(1).replace(/^.../, '$& ')}\n`]: {
          ...{ kind: 'totp', id: factorId, usedTo: new Date(NOW.getTime() + STEP_MS) },
        },
        [good]: { kind: 'recovery-code', digest: digestOfRecoveryCode(good) },
      }
      for (const [otp, expected] of Object.entries(proofs)) {
        const step = await check(user, otp)
        assert.ok(step.kind === 'proved', otp)
        const { used: proof, guessesBelow } = step.proof
        const { secret: _, ...facts } = { secret: '', ...proof }
        assert.deepEqual(facts, expected)
        assert.equal(guessesBelow, GUESSES.unknownDevice)
      }
      const late = { reason: 'code-late', failed: { guessesBelow: 0, codeOffsetSeconds: -60 } }
      const early = { reason: 'code-early', failed: { guessesBelow: 0, codeOffsetSeconds: 300 } }
      const guess = { guessesBelow: GUESSES.unknownDevice, codeOffsetSeconds: null }
      for (const [otp, expected] of [
        ['', { reason: 'code-missing', failed: NO_GUESS }],
        ['\t', { reason: 'code-missing', failed: NO_GUESS }],
        [used, { reason: 'code-used', failed: NO_GUESS }],
        [app.code(-2), late],
        [app.code(10), early],
        [app.code(11), { reason: 'code-wrong', failed: guess }],
        [app.wrongCode(), { reason: 'code-wrong', failed: guess }],
        [good.slice(1), { reason: 'code-wrong', failed: guess }],
      ] as const) {
        assert.deepEqual(await check(user, otp), { kind: 'unproved', ...expected }, otp)
      }
      const known = await check(user, app.wrongCode(), { isKnownDevice: true })
      assert.ok(known.kind === 'unproved')
      assert.equal(known.failed.guessesBelow, GUESSES.knownDevice)
    })
  }

  test('after ten guesses a right code is good on a known device only, after a hundred nowhere', async () => {
    const { user, app, good } = withApp
    for (const [failedSecondSteps, unknown, known] of [
      [9, 'proved', 'proved'],
      [10, 'too-many-guesses', 'proved'],
      [99, 'too-many-guesses', 'proved'],
      [100, 'too-many-guesses', 'too-many-guesses'],
    ] as const) {
      const guessed = { ...user, failedSecondSteps }
      for (const otp of [app.code(), good]) {
        assert.equal(await reasonOf(guessed, otp), unknown)
        assert.equal(await reasonOf(guessed, otp, { isKnownDevice: true }), known)
      }
      // A guess is counted up to the limit by the statement that stores it.
      assert.equal(await reasonOf(guessed, app.wrongCode()), 'code-wrong')
    }
  })

  test('a code is used up by a later one and by itself, not by an earlier one', async () => {
    const { user, app, factorId } = await newUser({ app: true })
    await database.rows(
      `update second_factors set used_to = '${NOW.toISOString()}' where id = '${factorId}'`,
    )
    assert.equal(await reasonOf(user, app.code(-1)), 'code-used')
    assert.equal(await reasonOf(user, app.code()), 'code-used')
    assert.equal(await reasonOf(user, app.code(1)), 'proved')
  })

  test('a code that was used more than a day ahead uses none up: the clock was wrong', async () => {
    const { user, app, factorId } = await newUser({ app: true })
    const stepStart = Math.floor(NOW.getTime() / STEP_MS) * STEP_MS
    for (const [aheadMs, reason] of [
      [DAY_MS, 'code-used'],
      [DAY_MS + STEP_MS, 'proved'],
    ] as const) {
      const usedTo = new Date(stepStart + aheadMs).toISOString()
      await database.rows(
        `update second_factors set used_to = '${usedTo}' where id = '${factorId}'`,
      )
      assert.equal(await reasonOf(user, app.code()), reason)
    }
  })

  test('a secret that no key of the file decrypts is never right; recovery codes are', async () => {
    const { user, app, good } = withApp
    const others = createKeys(await importKeys(await createFirstKeys(NOW)))
    const none = createKeys({ ...NO_KEYS })
    for (const keys of [others, none]) {
      for (const otp of [app.code(), app.wrongCode(), '000000']) {
        assert.equal(await reasonOf(user, otp, { keys }), 'factor-unreadable')
      }
      assert.equal(await reasonOf(user, good, { keys }), 'proved')
      assert.equal(await reasonOf(user, '', { keys }), 'code-missing')
      assert.equal(await reasonOf(null, '', { keys }), 'not-needed')
    }
  })

  test('the newest key in use encrypts the secret again; one that is not yet in use does not', async () => {
    const { user, app, bytes, factorId } = withApp
    const context = factorContext(user.id, factorId)
    for (const [seconds, keyId] of [
      [0, 'newer'],
      [1, OLD_KEY.kid],
    ] as const) {
      const { both, newest } = await withNewerKey(seconds)
      const step = await check(user, app.code(), { keys: both })
      assert.ok(step.kind === 'proved' && step.proof.used.kind === 'totp')
      const { secret } = step.proof.used
      assert.equal(keyIdOf(secret), keyId)
      assert.deepEqual(decrypt(both, secret, context), bytes)
      assert.deepEqual(decrypt(newest, secret, context), keyId === 'newer' ? bytes : null)
      // A refusal encrypts nothing.
      assert.equal(await reasonOf(user, app.wrongCode(), { keys: both }), 'code-wrong')
    }
  })

  describe('with passkeys', async () => {
    const made = KEY_KINDS.map(kind => createPasskey(kind))
    const [passkey = createPasskey()] = made
    const { user } = withPasskeys
    for (const it of made) await addPasskey(database, user.id, it.create(''))
    const elsewhere = createPasskey()
    await addPasskey(database, user.id, elsewhere.create(''), 'login.example.org')
    const foreign = createPasskey()
    await addPasskey(database, withEleven.user.id, foreign.create(''))
    const challenge = (seconds = 0) => challenges.make(new Date(NOW.getTime() + seconds * 1000))
    const used = (at: number | null) =>
      database.rows(
        `update second_factors set used_to = ${at === null ? 'null' : `'${new Date(NOW.getTime() + at).toISOString()}'`} where credential_id = '${passkey.id}'`,
      )

    test('one of each kind proves, and the challenge is what it uses up', async () => {
      for (const it of made) {
        const step = await check(user, it.get(challenge(-7)))
        assert.ok(step.kind === 'proved' && step.proof.used.kind === 'passkey')
        const { secret, usedTo } = step.proof.used
        assert.equal(secret, it.create('').publicKey)
        assert.deepEqual(usedTo, new Date(NOW.getTime() - 7_000))
      }
    })

    test('only one that never was right is a guess', async () => {
      const wrong = passkey.get(challenge(), { rpId: 'example.com' })
      const from = (origin: string) => passkey.get(challenge(), { client: { origin } })
      const odd = ['', '\0', "'", 'x'.repeat(1_365), '\ud800', `${passkey.id}=`]
      const refusals: [Assertion, reason: string, isGuess: boolean][] = [
        [wrong, 'passkey-wrong', true],
        [foreign.get(challenge()), 'passkey-unknown', true],
        [createPasskey().get(challenge()), 'passkey-unknown', true],
        // Bound to another domain, even if it signs for this one.
        [elsewhere.get(challenge()), 'passkey-unknown', true],
        ...odd.map(id => [{ ...wrong, id }, 'passkey-unknown', true] as [Assertion, string, true]),
        [from('https://other.example.com'), 'passkey-elsewhere', false],
        [passkey.get(challenge(-301)), 'passkey-late', false],
        [passkey.get(challenge(11)), 'passkey-late', false],
      ]
      for (const [sent, reason, isGuess] of refusals) {
        const failed = isGuess ? { ...NO_GUESS, guessesBelow: GUESSES.unknownDevice } : NO_GUESS
        assert.deepEqual(await check(user, sent), { kind: 'unproved', reason, failed })
      }
      const guessed = { ...user, failedSecondSteps: GUESSES.unknownDevice }
      const right = passkey.get(challenge())
      assert.equal(await reasonOf(guessed, right), 'too-many-guesses')
      assert.equal(await reasonOf(guessed, right, { isKnownDevice: true }), 'proved')
    })

    test('a challenge is used up by itself and by a later one, unless that is more than ten minutes ahead', async () => {
      for (const [at, reason] of [
        [null, 'proved'],
        [-1, 'proved'],
        [0, 'passkey-used'],
        [600_000, 'passkey-used'],
        [600_001, 'proved'],
        [365 * DAY_MS, 'proved'],
      ] as const) {
        await used(at)
        assert.equal(await reasonOf(user, passkey.get(challenge())), reason, String(at))
      }
      await used(null)
    })

    test('without a domain none is right; without a factor none is needed', async () => {
      const rules = { rpId: null, origin: ORIGIN, challenges } as unknown as typeof passkeys
      const sent = passkey.get(challenge())
      assert.equal(await reasonOf(user, sent, { rules }), 'passkey-unknown')
      for (const it of [null, without.user]) assert.equal(await reasonOf(it, sent), 'not-needed')
    })

    test('one read, and the same work for every user and every passkey', async () => {
      const names = ['createDecipheriv', 'createHmac', 'verify', 'createPublicKey'] as const
      const calls = names.map(name => mock.method(crypto, name).mock)
      syncBuiltinESMExports()
      try {
        for (const holder of [null, ...Object.values(holders).map(it => it.user)]) {
          for (const sent of [...made, foreign, elsewhere].map(it => it.get(challenge()))) {
            asked.length = 0
            for (const counted of calls) counted.resetCalls()
            await check(holder, sent)
            assert.deepEqual(asked, ['secondFactors.findProofs'])
            // 21 codes, and the tag of the challenge.
            assert.deepEqual(
              calls.map(it => it.callCount()),
              [1, 22, 3, 1],
            )
          }
        }
      } finally {
        mock.restoreAll()
        syncBuiltinESMExports()
      }
    })
  })
})
