// Runs the parts of docs/integrating.md that need Debian's packages for Python and Go; forward-auth.test.ts has the proxies.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { makeRecipeFolder, type RecipeFolder, recipe } from '../recipes.ts'
import { PASSWORD, startTestService, type TestService } from '../service.ts'

const EMAIL = 'kate@example.com'

describe('access tokens', () => {
  let service: TestService
  let folder: RecipeFolder
  /** Each token with the output that is expected for it: the user's id, or "invalid". */
  let tokens: string[]
  let expected: string[]

  before(async () => {
    service = await startTestService('sqlite', { JWT_ISSUER: '', ACCESS_TOKEN_SECONDS: '600' })
    await service.addUser(EMAIL)
    const address = service.url.replace('127.0.0.1', 'localhost')
    folder = await makeRecipeFolder(
      { 'https://login.example.com': address },
      join(service.dataDir, 'development-cert.pem'),
    )
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
    tokens = [
      accessToken,
      late,
      expired,
      refreshToken,
      `${header}.${claims}.${signature.slice(0, -3)}AAA`,
      `${withoutSignature}.${claims}.`,
      'x',
      '',
    ]
    expected = [user.id, user.id, ...Array(6).fill('invalid')]
  })
  after(async () => {
    await folder?.remove()
    await service?.stop()
  })

  test('are verified in Python', async () => {
    await folder.write('verify.py', recipe('Python', 'python'))
    await folder.write(
      'main.py',
      `import sys, jwt
from verify import verify
for token in sys.argv[1:]:
    try: print(verify(token)["sub"])
    except jwt.PyJWTError: print("invalid")
`,
    )
    const output = await folder.run(['/usr/bin/python3', 'main.py', ...tokens])
    assert.deepEqual(output.trim().split('\n'), expected)
  })

  test('are verified in Go', async () => {
    // Debian has version 4, without a number in its path.
    await folder.write('verify.go', recipe('Go', 'go').replace('jwt/v5', 'jwt'))
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
    const output = await folder.run(['go', 'run', 'main.go', 'verify.go', ...tokens], {
      GO111MODULE: 'off',
      GOPATH: '/usr/share/gocode',
      GOCACHE: join(folder.path, 'cache'),
      GOFLAGS: '-buildvcs=false',
    })
    assert.deepEqual(output.trim().split('\n'), expected)
  })

  test('of another issuer or audience are not accepted', async () => {
    for (const [printed, other] of [
      ['issuer=ISSUER', 'issuer="https://other.example"'],
      ['audience=ISSUER', 'audience="https://other.example"'],
    ] as const) {
      await folder.write('verify.py', recipe('Python', 'python').replace(printed, other))
      const output = await folder.run(['/usr/bin/python3', 'main.py', tokens[0] ?? ''])
      assert.equal(output, 'invalid\n', other)
    }
  })
})
