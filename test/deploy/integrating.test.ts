// Runs the parts of docs/integrating.md that need Debian's packages: Python, Go and nginx.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { ENGINES } from '../engines.ts'
import { freePort } from '../postgres-server.ts'
import { PROJECT, until } from '../process.ts'
import { makeRecipeFolder, type RecipeFolder, recipe } from '../recipes.ts'
import { createClient, PASSWORD, startTestService, type TestService } from '../service.ts'

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

  // The last ones: the tokens of the others expire.
  for (const engine of ENGINES) {
    test(`are refused in Python once their session has ended, on ${engine}`, async context => {
      const login = await startTestService(engine, { JWT_ISSUER: '' })
      context.after(() => login.stop())
      await login.addUser(EMAIL)
      const [ended, live] = [await login.login(EMAIL, PASSWORD), await login.login(EMAIL, PASSWORD)]
      await folder.write(
        'verifier.py',
        await readFile(join(PROJECT, 'examples/verifier.py'), 'utf8'),
      )
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
      const { user, accessToken, refreshToken } = ended.json.data
      const output = await folder.run(
        [
          ...['/usr/bin/python3', 'feed.py', address],
          ...[accessToken, refreshToken, live.json.data.accessToken],
        ],
        { SSL_CERT_FILE: join(login.dataDir, 'development-cert.pem') },
      )
      const expected = [user.id, 'the session has ended', user.id, 'silent', 'silent', 'False']
      assert.deepEqual(output.trim().split('\n'), expected)
    })
  }
})

describe('nginx in front of an application', () => {
  let service: TestService
  let application: Server
  let folder: RecipeFolder
  let nginx: ReturnType<typeof spawn>
  let call: Awaited<ReturnType<typeof createClient>>['call']
  let close: () => void
  let stopping: Promise<void> | null = null
  const stopService = () => {
    stopping ??= service.stop()
    return stopping
  }

  before(async () => {
    service = await startTestService('sqlite', {
      TRUST_PROXY: '127.0.0.1',
      JWT_ISSUER: 'https://localhost',
      RETURN_TO_ORIGINS: 'https://localhost',
    })
    await service.addUser(EMAIL)
    application = createServer(({ method, url }, response) => response.end(`${method} ${url}`))
    await new Promise<void>(resolve => application.listen(0, '127.0.0.1', resolve))
    const { port: appPort } = application.address() as AddressInfo
    const port = await freePort()
    const certFile = join(process.env.TEST_TEMPLATES ?? '', 'development-cert.pem')
    folder = await makeRecipeFolder(
      {
        'app.example.com': 'localhost',
        '127.0.0.1:8443': new URL(service.url).host,
        '127.0.0.1:3000': `127.0.0.1:${appPort}`,
        'listen 443': `listen 127.0.0.1:${port}`,
        '/etc/nginx/app.pem': certFile,
        '/etc/nginx/app.key': certFile.replace('cert.pem', 'key.pem'),
      },
      certFile,
    )
    await folder.write(
      'nginx.conf',
      `daemon off; master_process off; pid ${folder.path}/pid; error_log ${folder.path}/error.log;
       events {}
       http {
         access_log off; client_body_temp_path ${folder.path}/body; proxy_temp_path ${folder.path}/proxy;
         fastcgi_temp_path ${folder.path}/f; uwsgi_temp_path ${folder.path}/u; scgi_temp_path ${folder.path}/s;
         ${recipe('6.', 'nginx')}
       }`,
    )
    nginx = spawn('/usr/sbin/nginx', ['-c', join(folder.path, 'nginx.conf')], { stdio: 'inherit' })
    const client = await createClient(`https://localhost:${port}`, '', certFile)
    call = client.call
    close = client.close
    await until(() =>
      call({ method: 'GET', path: '/login' }).then(
        ({ status }) => status === 200,
        () => false,
      ),
    )
  })
  after(async () => {
    close?.()
    nginx?.kill()
    application?.close()
    application?.closeAllConnections()
    await folder?.remove()
    await stopService()
  })

  test('a visitor is sent to the login page, logs in, and reaches the application until the logout', async () => {
    const visit = (headers = {}) => call({ method: 'GET', path: '/orders?page=2', headers })
    const sent = await visit()
    assert.equal(sent.status, 302)
    const { location = '' } = sent.headers
    assert.match(location, /^\/login\?/)
    const { searchParams } = new URL(location, 'https://localhost')
    assert.equal(searchParams.get('return_to'), 'https://localhost/orders?page=2')
    const page = await call({ method: 'GET', path: `/login?${searchParams}` })
    assert.match(page.text, /https:\/\/localhost\/orders\?page=2/)
    const [asset = ''] = /\/assets\/[^"]+\.js/.exec(page.text) ?? []
    assert.equal((await call({ method: 'GET', path: asset })).status, 200)

    const browser = { 'Sec-Fetch-Site': 'same-origin' }
    const login = await call({ headers: browser, body: { email: EMAIL, password: PASSWORD } })
    assert.equal(login.status, 200)
    const cookie = (login.headers['set-cookie'] ?? []).map(set => set.split(';')[0]).join('; ')
    assert.equal((await visit({ cookie })).text, 'GET /orders?page=2')
    const upload = { headers: { cookie }, body: { order: 'x'.repeat(100_000) } }
    assert.equal((await call({ path: '/orders', ...upload })).text, 'POST /orders')
    const { accessToken } = login.json.data
    const bearer = await visit({ Authorization: `Bearer ${accessToken}` })
    assert.equal(bearer.text, 'GET /orders?page=2')
    // The question that nginx asks is not for visitors.
    assert.equal((await call({ method: 'GET', path: '/auth', headers: { cookie } })).status, 404)

    const csrf = { 'X-CSRF-Token': String(login.headers['x-csrf-token']) }
    const path = '/api/v1/auth/logout'
    assert.equal((await call({ path, headers: { ...browser, ...csrf, cookie } })).status, 200)
    assert.equal((await visit({ cookie })).status, 302)
    assert.equal((await visit({ Authorization: `Bearer ${accessToken}` })).status, 302)
  })

  test('an answer of the login service other than 401 does not open the application', async () => {
    await stopService()
    const answer = await call({ method: 'GET', path: '/orders' })
    assert.equal(answer.status, 500)
    assert.doesNotMatch(answer.text, /GET/)
  })
})
