import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose'
import { loadKeySet } from '../../src/keys/key-file.ts'
import { digestOf } from '../../src/system/identifiers.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { eventsOf } from '../support/own.ts'
import type { Call } from '../support/service.ts'
import { AUTH, bearer, INVALID_TOKEN, ownChange, ownSessions } from '../support/session-client.ts'

type SignKey = Parameters<SignJWT['sign']>[0]
type Body = Pick<Call, 'headers' | 'body'>

const typed = (type: string, body?: unknown): Body => ({ headers: { 'Content-Type': type }, body })
const json = (text: string | Buffer) => typed('application/json', text)
const given = (refreshToken: unknown): Body => ({ body: { refreshToken } })

/** By what `/refresh` answers: the status, the code and the fields that it names. */
const ODD_BODIES: Record<string, Record<string, Body>> = {
  '401 INVALID_TOKEN': {
    'nothing at all': {},
    'nothing, typed as JSON': typed('application/json'),
    'nothing, typed as text': typed('text/plain'),
    'an empty object': { body: {} },
    'a list': { body: [] },
    'JSON null': json('null'),
    'an empty string': given(''),
    dots: given('..'),
    'four parts': given('a.b.c.d'),
    'five parts': given('a.b.c.d.e'),
    NUL: given('\0'),
    'a lone surrogate': given('\ud800'),
    'nearly 16 KiB': given('x'.repeat(16_000)),
  },
  '400 BAD_REQUEST refreshToken': {
    'a list of a token': { body: ['a.b.c'] },
    'a JSON number': json('1'),
    'a JSON string': json('"a.b.c"'),
    'a number': given(1),
    null: given(null),
    true: given(true),
    'an array': given(['a.b.c']),
    'an object': given({ toString: 'a.b.c' }),
    'the field name in lower case': { body: { refreshtoken: 'a.b.c' } },
  },
  '400 BAD_REQUEST': {
    'malformed JSON': json('{"refreshToken":'),
    'invalid UTF-8': json(Buffer.from('{"\xff":1}', 'latin1')),
    'a prototype key': json('{"__proto__":{}}'),
  },
  '413 PAYLOAD_TOO_LARGE': { '16 KiB': given('x'.repeat(16_384)) },
  '415 UNSUPPORTED_MEDIA_TYPE': {
    'a body without a type': { body: '{}' },
    'a form': typed('application/x-www-form-urlencoded', 'refreshToken=a.b.c'),
  },
}

for (const engine of ENGINES_BY_RUN) {
  describe(`invalid refresh tokens on ${engine}`, async () => {
    const service = await ownSessions(engine)
    await service.addUser('kate@example.com')
    const login = await service.programLogin('kate@example.com')
    const { refreshKeys } = await loadKeySet(join(service.dataDir, 'signing-keys.json'))
    const [genuine] = refreshKeys
    assert.ok(genuine)

    for (const [expected, bodies] of Object.entries(ODD_BODIES)) {
      const isNone = expected.startsWith('401')
      test(`refresh answers ${expected}, and logout ${isNone ? 200 : 'the same'}`, async () => {
        for (const [name, body] of Object.entries(bodies)) {
          const { status, text, json } = await service.call({ path: `${AUTH}/refresh`, ...body })
          const { code, fields = [] } = json.error
          assert.equal([status, code, ...fields].join(' '), expected, name)
          const loggedOut = await service.call({ path: `${AUTH}/logout`, ...body })
          const answer = isNone ? [200, '{"success":true,"data":{}}'] : [status, text]
          assert.deepEqual([loggedOut.status, loggedOut.text], answer, name)
        }
      })
    }

    test('a body without a token does not matter if there is another credential', async () => {
      const { accessToken } = await service.programLogin('kate@example.com')
      const body = { refresh_token: 'x' }
      const path = `${AUTH}/logout`
      assert.equal((await service.call({ path, body, headers: bearer(accessToken) })).status, 200)
      assert.equal((await service.get('/session', bearer(accessToken))).status, 401)
      const browser = await service.browserLogin('kate@example.com')
      for (const path of [`${AUTH}/refresh`, `${AUTH}/logout`]) {
        assert.equal((await service.call({ path, body, headers: ownChange(browser) })).status, 200)
      }
    })

    /** The genuine token with changes to its header or claims. */
    const resigned = (header: object, claims: object = {}, key: SignKey = genuine.signingKey) =>
      new SignJWT({ ...decodeJwt(login.refreshToken), ...claims })
        .setProtectedHeader({
          alg: genuine.algorithm,
          ...decodeProtectedHeader(login.refreshToken),
          ...header,
        })
        .sign(key)
    const [header, claims] = login.refreshToken.split('.')
    const FORGERIES: Record<string, Promise<string> | string> = {
      unsigned: `${header}.${claims}.`,
      'signed with another secret': resigned({}, {}, randomBytes(32)),
      'with an id that was never issued': resigned({}, { jti: randomUUID() }),
      'with an id that is not a UUID': resigned({}, { jti: "' or 1=1--" }),
      'typed as an access token': resigned({ typ: 'at+jwt' }),
    }
    const NEVER_ISSUED: typeof FORGERIES = {
      'with a later expiry': resigned({}, { exp: 9_999_999_999 }),
      // Some bits of the last base64url character are ignored, so the character before it is changed.
      'with a changed signature': login.refreshToken.replace(
        /.(.)$/,
        (end, last) => `${end[0] === 'A' ? 'B' : 'A'}${last}`,
      ),
      'followed by a space': `${login.refreshToken} `,
    }

    async function assertRejected(forged: string, name: string): Promise<void> {
      const { status, text } = await service.refresh(forged)
      assert.deepEqual([status, text], [401, INVALID_TOKEN], name)
      assert.equal((await service.logout(forged)).text, '{"success":true,"data":{}}')
      const { json } = await service.get('/session', bearer(login.accessToken))
      assert.equal(json.data.session.id, login.sessionId)
    }
    const storeDigestOf = (token: string) =>
      service.database.rows(
        `update refresh_tokens set token = '${digestOf(token)}'
         where id = '${decodeJwt(login.refreshToken).jti}'`,
      )

    test('a forged token is refused, even if its digest is stored, and ends no session', async () => {
      for (const [name, token] of Object.entries(FORGERIES)) {
        const forged = await token
        await storeDigestOf(forged)
        await assertRejected(forged, name)
        await storeDigestOf(login.refreshToken)
        await assertRejected(forged, name)
      }
    })

    test('a token that was never issued is refused, and ends no session or token', async () => {
      for (const [name, forged] of Object.entries(NEVER_ISSUED)) {
        await assertRejected(await forged, name)
      }
      assert.equal((await service.refresh(login.refreshToken)).status, 200)
      const events = eventsOf(service.logged())
      assert.ok(!events.includes('session.reuse_detected'))
      assert.ok(!events.includes('request.failed'))
    })
  })
}
