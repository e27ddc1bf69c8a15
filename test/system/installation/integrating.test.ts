// Runs the parts of docs/integrating.md that need Debian's packages for Python and Go; forward-auth.test.ts has the proxies.
import assert from 'node:assert/strict'
import { sign } from 'node:crypto'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { loadKeySet } from '../../../src/keys/key-file.ts'
import { createCli } from '../../support/cli.ts'
import { ENGINES } from '../../support/engines.ts'
import { fillSessions } from '../../support/many-sessions.ts'
import { own } from '../../support/own.ts'
import { until } from '../../support/process.ts'
import { example, makeRecipeFolder } from '../../support/recipes.ts'
import { PASSWORD, startTestService } from '../../support/service.ts'
import { malformedTokens } from './malformed-tokens.ts'
import { LANGUAGES, openGate, startVerifier, type Verifier } from './verifiers.ts'

const EMAIL = 'kate@example.com'
/** The keys are then old. */
const LATER_SECONDS = 660
const MANY = 100

describe('access tokens', async () => {
  const gate = await own(openGate())
  const env = { JWT_ISSUER: gate.address, ACCESS_TOKEN_SECONDS: '600' }
  const service = await own(startTestService('sqlite', env))
  gate.leadTo(service.url)
  await service.addUser(EMAIL)
  const certFile = join(service.dataDir, 'development-cert.pem')
  const folder = await own(
    makeRecipeFolder({ 'https://login.example.com': gate.address }, certFile),
  )
  const keyFile = join(service.dataDir, 'signing-keys.json')
  const logIn = async () => (await service.login(EMAIL, PASSWORD)).json.data

  const verifiers: { language: string; verifier: Verifier }[] = []
  for (const language of LANGUAGES) {
    verifiers.push({ language, verifier: await own(startVerifier(language, folder)) })
  }

  /** Signed by the service's key, with any header and claims. */
  const [key] = (await loadKeySet(keyFile)).accessKeys
  assert.ok(key)
  const { signingKey } = key
  const encode = (text: string) => Buffer.from(text).toString('base64url')
  function signText(header: string, claims: string) {
    const signed = `${encode(header)}.${encode(claims)}`
    const joined = { key: signingKey, dsaEncoding: 'ieee-p1363' as const }
    return `${signed}.${sign('sha256', Buffer.from(signed), joined).toString('base64url')}`
  }
  const ofUnknownKey = (id: number) =>
    signText(`{"alg":"ES256","typ":"at+jwt","kid":"${id}"}`, '{}')

  /**
   * Each token with the outcome that is expected for it: the user's id, or "refused". To be used at once: one of them
   * is accepted for ten more seconds.
   */
  async function makeTokens() {
    const { accessToken, refreshToken, user } = await logIn()
    // Signed by the same key, with times in the past.
    service.advance(-620_000)
    const { accessToken: late } = await logIn()
    service.advance(-40_000)
    const { accessToken: expired } = await logIn()
    service.advance(660_000)
    const [header = '', claims = '', signature = ''] = accessToken.split('.')
    const tokens = [
      accessToken,
      late,
      expired,
      refreshToken,
      // In the middle of the signature: the last character has bits that do not count.
      `${header}.${claims}.${signature.replace(/.(?=.{20}$)/, it => (it === 'A' ? 'B' : 'A'))}`,
      `${encode('{"alg":"none","typ":"at+jwt"}')}.${claims}.`,
      ofUnknownKey(0),
      'x',
      '',
    ]
    return { tokens, expected: [user.id, user.id, ...Array<string>(7).fill('refused')] }
  }

  for (const { language, verifier } of verifiers) {
    describe(`in ${language}`, () => {
      test('are verified', async () => {
        const { tokens, expected } = await makeTokens()
        assert.deepEqual(await verifier.verify(tokens), expected)
      })

      test('are refused by the documented error, however malformed', async () => {
        const { accessToken, user } = await logIn()
        const { good, refused, others } = malformedTokens(accessToken, signText)
        const tokens = [...refused, ...others]
        const outcomes = await verifier.verify(tokens)
        const wrong = outcomes.flatMap((outcome, index) => {
          const isRight = outcome === 'refused' || (index >= refused.length && outcome === user.id)
          return isRight ? [] : [[tokens[index]?.slice(0, 300), outcome]]
        })
        assert.deepEqual(wrong, [])
        assert.deepEqual(await verifier.verify([good]), [user.id])
      })

      test('are accepted by old keys while the service is silent, and only those of unknown keys wait', {
        timeout: 120_000,
      }, async context => {
        const { accessToken, user } = await logIn()
        gate.set('silent')
        context.after(() => gate.set('open'))
        let isAnswered = false
        const unknown = verifier.verify([ofUnknownKey(1), ofUnknownKey(2)], LATER_SECONDS)
        const waiting = unknown.finally(() => {
          isAnswered = true
        })
        const outcomes = await verifier.verify(Array(MANY).fill(accessToken))
        assert.deepEqual(new Set(outcomes), new Set([user.id]))
        assert.ok(!isAnswered)
        assert.deepEqual(await waiting, ['refused', 'refused'])
      })

      test('of unknown keys cause few requests', async context => {
        gate.set('cutting')
        context.after(() => gate.set('open'))
        const before = gate.connections()
        const startedMs = performance.now()
        for (let id = 0; id < MANY; id++) {
          const seconds = id === 0 ? LATER_SECONDS : 0
          assert.deepEqual(await verifier.verify([ofUnknownKey(id)], seconds), ['refused'])
        }
        // Of all three programs: one for the keys in 10 seconds, and of two: one for the feed in 2.
        const most = 5 + (2 * (performance.now() - startedMs)) / 1000
        const made = gate.connections() - before
        assert.ok(made <= most, `${made} requests`)
      })
    })
  }

  test('of another issuer or audience are not accepted', async () => {
    const { accessToken } = await logIn()
    await folder.write('verifier.py', example('verifier.py'))
    await folder.write(
      'other.py',
      `import sys, jwt
from verifier import Verifier
issuer, audience, address, token = sys.argv[1:]
try: print(Verifier(issuer, audience, address=address).verify(token)["sub"])
except jwt.InvalidTokenError as error: print(error)
`,
    )
    const other = 'https://other.example'
    for (const [issuer, audience, reason] of [
      [gate.address, other, 'Invalid audience'],
      [other, gate.address, 'Invalid issuer'],
    ] as const) {
      const args = [issuer, audience, service.url.replace('127.0.0.1', 'localhost'), accessToken]
      const printed = await folder.run(['/usr/bin/python3', 'other.py', ...args])
      assert.equal(printed, `${reason}\n`)
    }
  })

  test('are accepted at once if their key is new', async () => {
    const cli = await own(createCli(service.database))
    await cli.run(['keys', 'rotate', '--now'], '', { SIGNING_KEYS_FILE: keyFile })
    const isPublished = async () => {
      const jwks = await service.call({ method: 'GET', path: '/.well-known/jwks.json' })
      return jwks.json.keys.length === 2
    }
    await until(isPublished)
    const { accessToken, user } = await logIn()
    for (const { verifier } of verifiers) {
      assert.deepEqual(await verifier.verify([accessToken], LATER_SECONDS), [user.id])
    }
  })

  for (const engine of ENGINES) {
    test(`are refused in Python once their session has ended, on ${engine}`, async () => {
      const login = await own(startTestService(engine, { JWT_ISSUER: '' }))
      const userId = await login.addUser(EMAIL)
      // More than one page.
      const filling = { tokensEach: 0, endedAt: login.now() }
      await fillSessions(login.database, userId, 10_001, login.now(), filling)
      const [ended, live] = [await login.login(EMAIL, PASSWORD), await login.login(EMAIL, PASSWORD)]
      await folder.write('verifier.py', example('verifier.py'))
      await folder.write(
        'feed.py',
        `import json, math, sys, time, urllib.request, jwt
from verifier import FeedSilent, Verifier
issuer, ended, refresh_token, live = sys.argv[1:]
verifier = Verifier(issuer)
print(verifier.verify(ended)["sub"])
body = json.dumps({"refreshToken": refresh_token}).encode()
logout = urllib.request.Request(f"{issuer}/api/v1/auth/logout", body, {"Content-Type": "application/json"})
urllib.request.urlopen(logout).read()
try:
    while True:
        verifier.verify(ended)
        time.sleep(0.1)
except jwt.InvalidTokenError as error: print(error)
try: Verifier(issuer).verify(ended)
except jwt.InvalidTokenError as error: print(error)
print(verifier.verify(live)["sub"])
verifier.max_silence = -1
try: verifier.verify(live)
except FeedSilent: print("silent")
nowhere = Verifier("https://localhost:1")
try: nowhere.is_ended("x")
except FeedSilent: print("silent")
nowhere.max_silence = math.inf
print(nowhere.is_ended("x"))
`,
      )
      const address = login.url.replace('127.0.0.1', 'localhost')
      const { accessToken, refreshToken } = ended.json.data
      const output = await folder.run(
        [
          ...['/usr/bin/python3', 'feed.py', address],
          ...[accessToken, refreshToken, live.json.data.accessToken],
        ],
        { SSL_CERT_FILE: join(login.dataDir, 'development-cert.pem') },
      )
      const hasEnded = 'the session has ended'
      const expected = [userId, hasEnded, hasEnded, userId, 'silent', 'silent', 'False']
      assert.deepEqual(output.trim().split('\n'), expected)
    })
  }
})
