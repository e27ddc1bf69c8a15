// Runs the parts of docs/integrating.md that need Debian's packages for Python and Go; forward-auth.test.ts has the proxies.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { ENGINES } from '../../support/engines.ts'
import { fillSessions } from '../../support/many-sessions.ts'
import { own } from '../../support/own.ts'
import { example, makeRecipeFolder } from '../../support/recipes.ts'
import { PASSWORD, startTestService } from '../../support/service.ts'

const EMAIL = 'kate@example.com'
/** Gets the issuer, the audience and tokens. The keys and the feed may be at another address than the issuer's. */
const VERIFY_IN_PYTHON = `import os, sys, jwt
from verifier import Verifier
issuer, audience, *tokens = sys.argv[1:]
verifier = Verifier(os.environ.get("KEYS_AT", issuer), audience)
verifier.issuer = issuer
for token in tokens:
    try: print(verifier.verify(token)["sub"])
    except jwt.PyJWTError: print("invalid")
`

describe('access tokens', async () => {
  const env = { JWT_ISSUER: '', ACCESS_TOKEN_SECONDS: '600' }
  const service = await own(startTestService('sqlite', env))
  await service.addUser(EMAIL)
  const address = service.url.replace('127.0.0.1', 'localhost')
  const certFile = join(service.dataDir, 'development-cert.pem')
  const folder = await own(makeRecipeFolder({ 'https://login.example.com': address }, certFile))

  /**
   * Each token with the output that is expected for it: the user's id, or "invalid". To be used at once: one of them
   * is accepted for ten more seconds.
   */
  async function makeTokens() {
    const logIn = async () => (await service.login(EMAIL, PASSWORD)).json.data
    const { accessToken, refreshToken, user } = await logIn()
    // Signed by the same key, with times in the past.
    service.advance(-620_000)
    const { accessToken: late } = await logIn()
    service.advance(-40_000)
    const { accessToken: expired } = await logIn()
    service.advance(660_000)
    const [header = '', claims = '', signature = ''] = accessToken.split('.')
    const withoutSignature = Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')
    const tokens = [
      accessToken,
      late,
      expired,
      refreshToken,
      // In the middle of the signature: the last character has bits that do not count.
      `${header}.${claims}.${signature.replace(/.(?=.{20}$)/, it => (it === 'A' ? 'B' : 'A'))}`,
      `${withoutSignature}.${claims}.`,
      'x',
      '',
    ]
    return { tokens, expected: [user.id, user.id, ...Array<string>(6).fill('invalid')] }
  }

  test('are verified in Python', async () => {
    await folder.write('verifier.py', example('verifier.py'))
    await folder.write('main.py', VERIFY_IN_PYTHON)
    const { tokens, expected } = await makeTokens()
    const output = await folder.run(['/usr/bin/python3', 'main.py', address, address, ...tokens])
    assert.deepEqual(output.trim().split('\n'), expected)
  })

  test('are verified in Go', async context => {
    // Programs cannot be run from every folder in memory.
    const built = await mkdtemp(join(tmpdir(), 'login-go-'))
    context.after(() => rm(built, { recursive: true }))
    const program = join(built, 'verify')
    // Debian has version 4, without a number in its path.
    await folder.write('verify.go', example('verifier.go').replace('jwt/v5', 'jwt'))
    await folder.write(
      'main.go',
      `package main
import ("fmt"; "os")
func main() {
	for _, token := range os.Args[1:] {
		if claims, err := Verify(token); err == nil { fmt.Println(claims.Subject) } else { fmt.Println("invalid") }
	}
}
`,
    )
    await folder.run(['go', 'build', '-o', program, 'main.go', 'verify.go'], {
      GO111MODULE: 'off',
      GOPATH: '/usr/share/gocode',
      GOCACHE: join(folder.path, 'cache'),
      GOFLAGS: '-buildvcs=false',
    })
    const { tokens, expected } = await makeTokens()
    const output = await folder.run([program, ...tokens])
    assert.deepEqual(output.trim().split('\n'), expected)
  })

  test('of another issuer or audience are not accepted', async () => {
    const { tokens } = await makeTokens()
    const other = 'https://other.example'
    for (const pair of [
      [address, other],
      [other, address],
    ]) {
      const command = ['/usr/bin/python3', 'main.py', ...pair, tokens[0] ?? '']
      assert.equal(await folder.run(command, { KEYS_AT: address }), 'invalid\n')
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
