// Passkeys through the front door: set up, used, replayed, listed, removed.
import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { decodeJwt } from 'jose'
import type { Assertion, NewPasskey } from '../../src/login/passkey.ts'
import { changeAt } from '../storage/fixtures.ts'
import {
  createAuthenticator,
  newUserWithApp,
  SECOND_FACTOR,
  STEP_MS,
} from '../support/authenticator.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { eventsOf, inParallel, own } from '../support/own.ts'
import {
  addPasskey,
  challengeOf,
  createPasskey,
  FLAGS,
  KEY_KINDS,
  ORIGIN,
  type Passkey,
} from '../support/passkey.ts'
import { until } from '../support/process.ts'
import {
  type Call,
  countStatuses,
  createAddresses,
  loggedBy,
  PASSWORD,
  startTestService,
  type TestService,
  UNLIMITED,
} from '../support/service.ts'
import { AUTH, bearer, MINUTE_MS, ownSessions, REJECTED } from '../support/session-client.ts'

const POP = ['pwd', 'pop', 'mfa']
const OTP = ['pwd', 'otp', 'mfa']
const CHALLENGE = `${AUTH}/passkey-challenge`
const DAY_MS = 24 * 60 * MINUTE_MS
const NEW_PASSWORD = 'seven green boats at noon'
const amrOf = (accessToken: string) => decodeJwt(accessToken).amr

function clientOf({ call, store, newUser }: TestService) {
  const newAddress = createAddresses()
  const post = (path: string, body: object, more: Call = {}) =>
    call({ path, body, from: newAddress(), ...more })
  const login = (email: string, proof: object = {}, more: Call = {}) =>
    post(`${AUTH}/login`, { email, password: PASSWORD, ...proof }, more)
  const change = (email: string, body: object) =>
    post(SECOND_FACTOR, { email, password: PASSWORD, ...body })
  const challenge = () => challengeOf({ call })
  const idOf = async (email: string) => (await store.users.findByEmail(email))?.id ?? ''
  return {
    ...{ newAddress, post, login, change, challenge, idOf },
    add: async (email: string, passkey: Passkey, body: object = {}) =>
      change(email, { newPasskey: passkey.create(await challenge()), ...body }),
    get: async (passkey: Passkey) => ({ passkey: passkey.get(await challenge()) }),
    factorsOf: async (email: string) => (await store.secondFactors.list(await idOf(email))).factors,
    async newUserWith(passkey = createPasskey()) {
      const email = await newUser()
      const answer = await change(email, { newPasskey: passkey.create(await challenge()) })
      assert.equal(answer.status, 200, answer.text)
      return { email, passkey, recoveryCodes: answer.json.data.recoveryCodes ?? [] }
    },
  }
}

for (const engine of ENGINES_BY_RUN) {
  describe(`passkeys on ${engine}`, async () => {
    const service = await ownSessions(engine, { ...UNLIMITED, SECOND_FACTOR_ROLES: 'editor' })
    service.stopClock({ after })
    const client = clientOf(service)
    const { newAddress, post, login, change, add, get, challenge, newUserWith, factorsOf } = client
    const tick = () => service.advance(1)

    test('a challenge names the domain and is kept by no cache; no two are the same', async () => {
      const [first, second] = [await challenge(), await challenge()]
      assert.notEqual(first, second)
      const { headers, json } = await service.call({ method: 'GET', path: CHALLENGE })
      assert.equal(headers['cache-control'], 'no-store')
      const { challenge: _, ...rest } = json.data
      assert.deepEqual(rest, { rpId: 'login.example.com', expiresIn: 300 })
      const forged = { Host: 'localhost', 'X-Forwarded-Host': 'evil.example' }
      const asked = await service.call({ method: 'GET', path: CHALLENGE, headers: forged })
      assert.equal(asked.json.data.rpId, 'login.example.com')
    })

    for (const kind of KEY_KINDS) {
      test(`${kind}: the first factor makes recovery codes; then it is demanded, and session and tokens say so`, async () => {
        const email = await service.newUser()
        const passkey = createPasskey(kind)
        const lines = await loggedBy(service, async () => {
          const { status, json } = await add(email, passkey)
          assert.equal(status, 200)
          assert.equal(new Set(json.data.recoveryCodes).size, 10)
          assert.deepEqual(amrOf(json.data.accessToken), POP)
        })
        assert.deepEqual(eventsOf(lines), ['login.succeeded', 'second_factor.set'])
        assert.equal((await login(email)).text, REJECTED)
        tick()
        const { accessToken, refreshToken } = (await login(email, await get(passkey))).json.data
        assert.deepEqual(amrOf(accessToken), POP)
        assert.deepEqual(amrOf((await service.refresh(refreshToken)).json.data.accessToken), POP)
        const { data } = (await service.get('/session', bearer(accessToken))).json
        const [factor] = data.factors
        assert.partialDeepStrictEqual(factor, { kind: 'passkey', name: 'A passkey' })
        assert.ok(factor?.lastUsedAt)
        const { status } = await service.get('/verify?amr=mfa', bearer(accessToken))
        assert.equal(status, 200)
      })
    }

    test('every refusal is the 401 of a wrong password; the log has the reason', async () => {
      const { email, passkey } = await newUserWith()
      const other = await newUserWith()
      const elsewhere = createPasskey()
      await addPasskey(service.database, await client.idOf(email), elsewhere.create(''), 'a.com')
      const ofSetUp = passkey.get(await challenge())
      tick()
      const late = await challenge()
      service.advance(5 * MINUTE_MS + 1)
      const earlier = await challenge()
      tick()
      const right = passkey.get(await challenge())
      assert.equal((await login(email, { passkey: right })).status, 200)
      tick()
      const now = await challenge()
      const refusals: [object, reason: string][] = [
        [{}, 'code-missing'],
        [{ otp: '123456' }, 'code-wrong'],
        [{ passkey: ofSetUp }, 'passkey-late'],
        [{ passkey: right }, 'passkey-used'],
        [{ passkey: passkey.get(earlier) }, 'passkey-used'],
        [{ passkey: passkey.get(late) }, 'passkey-late'],
        [{ passkey: other.passkey.get(now) }, 'passkey-unknown'],
        [{ passkey: elsewhere.get(now) }, 'passkey-unknown'],
        [{ passkey: { ...passkey.get(now), id: other.passkey.id } }, 'passkey-unknown'],
        [{ passkey: { ...other.passkey.get(now), id: passkey.id } }, 'passkey-wrong'],
        [{ passkey: passkey.get(now, { rpId: 'example.com' }) }, 'passkey-wrong'],
        [{ passkey: passkey.get(now, { flags: FLAGS.uv }) }, 'passkey-wrong'],
        [{ passkey: passkey.get(now, { client: { crossOrigin: true } }) }, 'passkey-wrong'],
        [{ passkey: passkey.get(now, { client: { topOrigin: ORIGIN } }) }, 'passkey-wrong'],
        [{ passkey: passkey.get(now.slice(1)) }, 'passkey-wrong'],
        [
          { passkey: passkey.get(now, { client: { origin: 'https://evil.example' } }) },
          'passkey-elsewhere',
        ],
        [
          { passkey: { id: '', clientDataJSON: '', authenticatorData: '', signature: '' } },
          'passkey-unknown',
        ],
      ]
      // Not enough wrong ones to be shut out.
      const lines = await loggedBy(service, async () => {
        for (const [proof] of refusals) {
          const answer = await login(email, proof)
          assert.deepEqual([answer.status, answer.text], [401, REJECTED])
          await service.database.rows('update users set failed_second_steps = 0')
        }
      })
      assert.deepEqual(
        lines.flatMap(({ event, reason }) => (event === 'login.failed' ? [reason] : [])),
        refusals.map(([, reason]) => reason),
      )
      assert.equal((await login(email, { passkey: passkey.get(now) })).status, 200)
    })

    test('an address in the request is of no use: neither Host nor Origin', async () => {
      const { email, passkey } = await newUserWith()
      tick()
      const origin = 'https://localhost'
      const sent = passkey.get(await challenge(), { client: { origin } })
      const headers = { Host: 'localhost', 'X-Forwarded-Host': 'localhost', Origin: origin }
      assert.equal((await login(email, { passkey: sent }, { headers })).status, 401)
      const { Origin: _, ...own } = headers
      tick()
      assert.equal((await login(email, await get(passkey), { headers: own })).status, 200)
    })

    test('of 20 parallel logins with one use exactly one succeeds, the others are failures and no guesses', async () => {
      const { email, passkey } = await newUserWith()
      tick()
      const proof = await get(passkey)
      const answers = await inParallel(20, () => login(email, proof))
      assert.deepEqual(countStatuses(answers), { 200: 1, 401: 19 })
      const user = await service.store.users.findByEmail(email)
      assert.equal(user?.failedSecondSteps, 0)
      tick()
      assert.equal((await login(email, await get(passkey))).status, 200)
    })

    test('ten wrong ones with the right password are guesses, as codes are', async () => {
      const { email, passkey } = await newUserWith()
      tick()
      const lines = await loggedBy(service, async () => {
        for (let i = 0; i < 10; i++) await login(email, await get(createPasskey()))
      })
      const alarms = lines.filter(({ event }) => event === 'account.password_known')
      assert.deepEqual(
        alarms.map(({ guesses }) => guesses),
        [3, 10],
      )
      assert.equal((await login(email, await get(passkey))).text, REJECTED)
    })

    test('one that was used while the clock was a year ahead works again; after ten minutes it does not work twice', async () => {
      const { email, passkey } = await newUserWith()
      for (const [ms, isRight] of [
        [365 * DAY_MS, true],
        [10 * MINUTE_MS, false],
      ] as const) {
        service.advance(ms)
        const proof = await get(passkey)
        assert.equal((await login(email, proof)).status, 200)
        service.advance(-ms)
        assert.equal((await login(email, proof)).status, 401)
        tick()
        const status = (await login(email, await get(passkey))).status
        assert.equal(status, isRight ? 200 : 401)
        // What was used then stays used up when its time has come.
        if (!isRight) service.advance(ms)
        if (!isRight) assert.equal((await login(email, proof)).text, REJECTED)
      }
      tick()
      assert.equal((await login(email, await get(passkey))).status, 200)
    })

    test('a change of the password takes it; a code beside it is refused before anything is looked at', async () => {
      const { email, passkey } = await newUserWith()
      tick()
      const both = { ...(await get(passkey)), otp: '123456' }
      for (const [path, body] of [
        [`${AUTH}/login`, { email, password: PASSWORD, ...both }],
        [
          `${AUTH}/password`,
          { email, currentPassword: PASSWORD, newPassword: NEW_PASSWORD, ...both },
        ],
        [SECOND_FACTOR, { email, password: PASSWORD, recoveryCodes: true, ...both }],
      ] as const) {
        const { status, json } = await post(path, body)
        assert.deepEqual([status, json.error.fields], [400, ['otp', 'passkey']])
      }
      const { otp: _, ...proof } = both
      const body = { email, currentPassword: PASSWORD, newPassword: NEW_PASSWORD }
      assert.equal((await post(`${AUTH}/password`, body)).text, REJECTED)
      // The empty field of a form is none.
      const set = await post(`${AUTH}/password`, { ...body, ...proof, otp: ' ' })
      assert.equal(set.status, 200)
      assert.deepEqual(amrOf(set.json.data.accessToken), POP)
    })

    test('further ones need a proof and make no recovery codes; an app beside them does', async () => {
      const { email, passkey, recoveryCodes } = await newUserWith()
      const [second, app] = [createPasskey('EdDSA'), createAuthenticator(service.now)]
      tick()
      assert.equal((await add(email, second)).text, REJECTED)
      const added = await add(email, second, await get(passkey))
      assert.equal(added.status, 200)
      assert.equal(added.json.data.recoveryCodes, undefined)
      tick()
      assert.equal((await login(email, { otp: recoveryCodes[0] })).status, 200)
      const secret = { secret: app.secret, newOtp: app.code() }
      const set = await change(email, { ...secret, ...(await get(second)) })
      assert.deepEqual([set.status, set.json.data.recoveryCodes?.length], [200, 10])
      assert.equal((await login(email, { otp: recoveryCodes[1] })).status, 401)
      service.advance(STEP_MS)
      const byApp = await login(email, { otp: app.code() })
      assert.deepEqual(amrOf(byApp.json.data.accessToken), OTP)
      for (const it of [passkey, second]) {
        assert.equal((await login(email, await get(it))).status, 200)
      }
    })

    test('one of several is removed, then the last one with the recovery codes', async () => {
      const { email, app } = await newUserWithApp(service, newAddress)
      const passkey = createPasskey()
      assert.equal((await add(email, passkey, { otp: app.code() })).status, 200)
      const [, factor] = await factorsOf(email)
      assert.ok(factor)
      service.advance(STEP_MS)
      for (const remove of [
        crypto.randomUUID(),
        (await factorsOf((await newUserWith()).email))[0]?.id,
      ]) {
        const { status, json } = await change(email, { remove, otp: app.code() })
        assert.deepEqual(
          [status, json.error.fields, json.error.reason],
          [400, ['remove'], 'no_second_factor'],
        )
      }
      const lines = await loggedBy(service, async () => {
        const gone = await change(email, { secret: null, ...(await get(passkey)) })
        assert.equal(gone.status, 200)
      })
      assert.ok(eventsOf(lines).includes('second_factor.removed'))
      assert.equal((await login(email, { otp: app.code() })).text, REJECTED)
      const left = await service.store.secondFactors.list(await client.idOf(email))
      assert.deepEqual([left.factors.length, left.recoveryCodesLeft], [1, 10])
      tick()
      const last = await change(email, { remove: factor.id.toUpperCase(), ...(await get(passkey)) })
      assert.equal(last.status, 200)
      assert.deepEqual(await service.store.secondFactors.list(await client.idOf(email)), {
        ...{ factors: [], recoveryCodesLeft: 0 },
      })
      assert.deepEqual(amrOf((await login(email)).json.data.accessToken), ['pwd'])
    })

    test('there are ten at most, also if they are added in parallel; the same one again is refused', async () => {
      const { email, passkey, recoveryCodes } = await newUserWith()
      for (let i = 2; i <= 9; i++) {
        tick()
        assert.equal((await add(email, createPasskey(), await get(passkey))).status, 200)
      }
      const answers = await inParallel(3, index =>
        add(email, createPasskey(), { otp: recoveryCodes[index] }),
      )
      // Those that lose the race are told at once, or fail because the factors have changed.
      assert.equal(answers.filter(({ status }) => status === 200).length, 1)
      assert.equal((await factorsOf(email)).length, 10)
      tick()
      const full = await add(email, createPasskey(), await get(passkey))
      assert.deepEqual(
        [full.status, full.json.error.fields, full.json.error.reason],
        [400, ['newPasskey'], 'too_many_passkeys'],
      )
      const again = await add(email, passkey, await get(passkey))
      assert.deepEqual([again.status, again.json.error.reason], [400, 'passkey_known'])
    })

    test('removed and added again, nothing that it signed before is good', async () => {
      const { email, passkey, recoveryCodes } = await newUserWith()
      tick()
      const newPasskey = passkey.create(await challenge())
      tick()
      const [used, unused] = [await get(passkey), await get(passkey)]
      const [{ id: remove = '' } = {}] = await factorsOf(email)
      assert.equal((await add(email, createPasskey(), { otp: recoveryCodes[0] })).status, 200)
      assert.equal((await change(email, { remove, ...used })).status, 200)
      assert.equal((await change(email, { newPasskey, otp: recoveryCodes[1] })).status, 200)
      for (const proof of [used, unused]) assert.equal((await login(email, proof)).text, REJECTED)
      tick()
      assert.equal((await login(email, await get(passkey))).status, 200)
    })

    test('a challenge from before the clock was wrong does not make one from then good again', async () => {
      const { email, passkey } = await newUserWith()
      tick()
      const before = await get(passkey)
      service.advance(10 * MINUTE_MS)
      assert.equal((await login(email, await get(passkey))).status, 200)
      service.advance(-10 * MINUTE_MS)
      // It would overwrite the later time.
      assert.equal((await login(email, before)).text, REJECTED)
    })

    test('no key ends the process or stalls it', async () => {
      const email = await service.newUser()
      const fresh = createPasskey().create(await challenge())
      // P-256 with the point at infinity; RSA with a short modulus and an exponent of 11 kB.
      const infinity = '3019301306072a8648ce3d020106082a8648ce3d03010703020000'
      const exponent = Buffer.alloc(11_000, 0xff).toString('base64url')
      const key = { kty: 'RSA', n: Buffer.alloc(64, 0xff).toString('base64url'), e: exponent }
      const slow = createPublicKey({ format: 'jwk', key }).export({ format: 'der', type: 'spki' })
      for (const [algorithm, publicKey] of [
        [-7, Buffer.from(infinity, 'hex')],
        [-257, slow],
      ] as const) {
        const newPasskey = { ...fresh, algorithm, publicKey: publicKey.toString('base64url') }
        const { status, json } = await change(email, { newPasskey })
        assert.deepEqual([status, json.error.reason], [400, 'passkey_wrong'])
      }
    })

    test('bad input names its field; what is wrong with a new one is told only after password and proof were right', async () => {
      const email = await service.newUser()
      const passkey = createPasskey()
      const fresh = passkey.create(await challenge())
      const used = passkey.get(await challenge())
      const long = createPasskey('ES256', { idBytes: 1_200 }).create(await challenge())
      const shapes: [object, fields: string[]][] = [
        [{ newPasskey: 'text' }, ['newPasskey']],
        [{ newPasskey: {} }, ['newPasskey']],
        [{ newPasskey: { ...fresh, algorithm: -9 } }, ['newPasskey']],
        [{ newPasskey: { ...fresh, algorithm: '-7' } }, ['newPasskey']],
        ...['', ' ', 'x'.repeat(101), 'a\u0000b', '\ud800', 5].map(
          name => [{ newPasskey: { ...fresh, name } }, ['newPasskey']] as [object, string[]],
        ),
        [
          { newPasskey: fresh, remove: crypto.randomUUID() },
          ['secret', 'newPasskey', 'remove', 'recoveryCodes'],
        ],
        [{ newPasskey: null, recoveryCodes: true }, ['newPasskey']],
        [{ remove: 'app' }, ['remove']],
        [{ remove: null, recoveryCodes: true }, ['remove']],
        [{ recoveryCodes: true, passkey: 'text' }, ['passkey']],
        [{ recoveryCodes: true, passkey: null }, ['passkey']],
        [{ recoveryCodes: true, passkey: { ...used, signature: 5 } }, ['passkey']],
      ]
      for (const [body, fields] of shapes) {
        for (const password of [PASSWORD, 'wrong']) {
          const { status, json } = await change(email, { password, ...body })
          assert.deepEqual([status, json.error.fields], [400, fields], JSON.stringify(body))
        }
      }
      for (const proof of [{ passkey: 5 }, { passkey: [] }, { passkey: { id: 'a' } }]) {
        const { status, json } = await login(email, proof)
        assert.deepEqual([status, json.error.fields], [400, ['passkey']])
      }
      const client = (fields: object) => ({ client: fields as Record<string, unknown> })
      const flaws: [Partial<NewPasskey>, reason: string][] = [
        [{ id: createPasskey().id }, 'passkey_wrong'],
        [long, 'passkey_wrong'],
        [{ publicKey: 'AAAA' }, 'passkey_wrong'],
        [{ algorithm: -257 }, 'passkey_wrong'],
        [passkey.create('A'.repeat(51)), 'passkey_wrong'],
        [passkey.create(await challenge(), { rpId: 'example.com' }), 'passkey_wrong'],
        [
          passkey.create(await challenge(), client({ origin: 'https://evil.example' })),
          'passkey_elsewhere',
        ],
      ]
      for (const [changed, reason] of flaws) {
        const newPasskey = { ...fresh, ...changed }
        assert.equal((await change(email, { newPasskey, password: 'wrong' })).text, REJECTED)
        const { status, json } = await change(email, { newPasskey })
        assert.deepEqual(
          [status, json.error.fields, json.error.reason],
          [400, ['newPasskey'], reason],
        )
      }
      service.advance(5 * MINUTE_MS + 1)
      const { json } = await change(email, { newPasskey: fresh })
      assert.equal(json.error.reason, 'passkey_late')
      assert.equal((await factorsOf(email)).length, 0)
      // A login ignores it without a factor, whatever it is.
      assert.equal((await login(email, { passkey: used })).status, 200)
    })

    test('where a role demands a factor, it is one, and the last one stays', async () => {
      const email = await service.newUser()
      await service.store.users.set(
        await client.idOf(email),
        { role: 'editor' },
        changeAt(service.now()),
      )
      const passkey = createPasskey()
      assert.equal((await login(email)).json.error.code, 'SECOND_FACTOR_REQUIRED')
      assert.equal((await add(email, passkey)).status, 200)
      tick()
      const [{ id: remove = '' } = {}] = await factorsOf(email)
      const { status, json } = await change(email, { remove, ...(await get(passkey)) })
      assert.deepEqual(
        [status, json.error.fields, json.error.reason],
        [400, ['remove'], 'demanded'],
      )
      // That has not used it up.
      const app = createAuthenticator(service.now)
      const set = { secret: app.secret, newOtp: app.code(), ...(await get(passkey)) }
      assert.equal((await change(email, set)).status, 200)
      service.advance(STEP_MS)
      assert.equal((await change(email, { remove, otp: app.code() })).status, 200)
    })

    test('an administrator’s reset removes it, and nothing that it signs is right after that', async () => {
      const { email, passkey } = await newUserWith()
      tick()
      await service.store.secondFactors.reset(
        await client.idOf(email),
        null,
        changeAt(service.now()),
      )
      const next = createPasskey()
      assert.equal((await add(email, next)).status, 200)
      tick()
      assert.equal((await login(email, await get(passkey))).text, REJECTED)
      assert.equal((await login(email, await get(next))).status, 200)
    })
  })

  describe(`passkeys of several instances on ${engine}`, async () => {
    const first = await startTestService(engine, UNLIMITED)
    const second = await own(startTestService(engine, UNLIMITED, first))
    after(first.stop)

    test('a challenge of one is known to the other, and used up at both at once', async () => {
      const [here, there] = [clientOf(first), clientOf(second)]
      const { email, passkey } = await here.newUserWith()
      const proof = await there.get(passkey)
      const answers = await inParallel(20, index => (index % 2 ? here : there).login(email, proof))
      assert.deepEqual(countStatuses(answers), { 200: 1, 401: 19 })
      assert.equal((await here.login(email, await there.get(passkey))).status, 200)
    })
  })

  describe(`the domain of passkeys on ${engine}`, async () => {
    const service = await startTestService(engine, UNLIMITED)
    after(service.stop)
    const restarted = (env: Record<string, string>) =>
      own(startTestService(engine, { ...UNLIMITED, ...env }, service))

    test('a domain above the host has passkeys of its own: those of the host do not count there', async () => {
      const old = clientOf(service)
      const { email, passkey, recoveryCodes } = await old.newUserWith()
      const moved = clientOf(await restarted({ PASSKEY_RP_ID: 'example.com' }))
      // Even if the authenticator would sign for another domain.
      const forged = passkey.get(await moved.challenge(), { rpId: 'example.com' })
      for (const proof of [await moved.get(passkey), { passkey: forged }, {}]) {
        assert.equal((await moved.login(email, proof)).text, REJECTED)
      }
      const next = createPasskey('ES256', { rpId: 'example.com' })
      const added = await moved.add(email, next, { otp: recoveryCodes[0] })
      assert.equal(added.status, 200)
      await until(async () => (await moved.login(email, await moved.get(next))).status === 200)
      assert.equal((await old.login(email, await old.get(passkey))).status, 200)
    })

    test('at an IP address there are none: a stored one is never right', async () => {
      const { email, passkey } = await clientOf(service).newUserWith()
      const origin = 'https://127.0.0.1:8443'
      const there = await restarted({ JWT_ISSUER: origin })
      const client = clientOf(there)
      const { status, json } = await there.call({ method: 'GET', path: CHALLENGE })
      assert.deepEqual([status, json.error.code], [503, 'SECOND_FACTOR_UNAVAILABLE'])
      const challenge = await clientOf(service).challenge()
      const sent: Assertion = passkey.get(challenge, { client: { origin }, rpId: '127.0.0.1' })
      assert.equal((await client.login(email, { passkey: sent })).text, REJECTED)
      const newPasskey = createPasskey().create(challenge, { client: { origin } })
      const set = await client.change(await there.newUser(), { newPasskey })
      assert.equal(set.json.error.code, 'SECOND_FACTOR_UNAVAILABLE')
    })

    test('with SECOND_FACTOR=off none is set up, and stored ones are demanded all the same', async () => {
      const { email, passkey } = await clientOf(service).newUserWith()
      const off = await restarted({ SECOND_FACTOR: 'off' })
      const client = clientOf(off)
      const refused = await client.add(await off.newUser(), createPasskey())
      assert.equal(refused.json.error.code, 'SECOND_FACTOR_UNAVAILABLE')
      assert.equal((await client.login(email)).text, REJECTED)
      assert.equal((await client.login(email, await client.get(passkey))).status, 200)
    })
  })
}
