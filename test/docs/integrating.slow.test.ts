// Runs the recipes of docs/integrating.md that need neither a browser nor other languages.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { findMachineNode } from '../support/old-node.ts'
import {
  createDeployment,
  type Deployment,
  PROJECT,
  type ServiceProcess,
} from '../support/process.ts'
import { makeRecipeFolder, type RecipeFolder, recipe } from '../support/recipes.ts'
import { createClient, PASSWORD } from '../support/service.ts'

const execute = promisify(execFile)
const NODE = findMachineNode()
const EMAIL = 'kate@example.com'
let deployment: Deployment
let service: ServiceProcess
let folder: RecipeFolder
let application: string

before(async () => {
  deployment = await createDeployment('sqlite', { JWT_ISSUER: '' })
  service = await deployment.start()
  await deployment.addUser(EMAIL)
  const certFile = join(deployment.dataDir, 'development-cert.pem')
  const addresses = {
    'https://login.example.com': service.url.replace('127.0.0.1', 'localhost'),
    get 'https://app.example.com'() {
      return application
    },
  }
  folder = await makeRecipeFolder(addresses, certFile)
  await folder.write('server.js', recipe('Node', 'js'))
  application = await folder.serve('server.js')
})
after(async () => {
  await folder?.remove()
  await deployment?.remove()
})

async function ask(token: string | null, address = application) {
  const client = await createClient(address, deployment.dataDir)
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` }
  try {
    return await client.call({ method: 'GET', path: '/api/me', headers })
  } finally {
    client.close()
  }
}

test('Node verifies an access token, and no other token', async () => {
  const { accessToken, refreshToken, user } = (await service.login(EMAIL)).json.data
  const answer = await ask(accessToken)
  assert.equal(answer.status, 200)
  assert.deepEqual(answer.json, { id: user.id, name: 'Test', role: 'user' })
  // In the middle of the signature: the last character has bits that do not count.
  const changed = accessToken.replace(/.(?=.{20}$)/, it => (it === 'A' ? 'B' : 'A'))
  for (const wrong of [refreshToken, changed, 'x', '']) {
    assert.equal((await ask(wrong)).status, 401, wrong)
  }
  assert.equal((await ask(null)).status, 401)
})

test('Node says why a token is refused', async () => {
  const { accessToken } = (await service.login(EMAIL)).json.data
  const [, verifier = ''] = /^(import.*?^\}\)\n)/ms.exec(recipe('Node', 'js')) ?? []
  const other = verifier.replace("', {", "', { audience: 'https://other.example',")
  await folder.write('other.js', `${other}\nawait verify(process.env.TOKEN)`)
  const printed = await folder.run([NODE, 'other.js'], { TOKEN: accessToken })
  assert.match(printed, /^access token refused: .*"aud"/)
})

test('a native app continues after a restart, and its token is for its owner only', async () => {
  await folder.write('native.js', recipe('4.', 'js'))
  const run = () => folder.run([NODE, 'native.js'], { EMAIL, PASSWORD })
  assert.equal(await run(), 'Hello Test\n')
  assert.equal(await run(), 'Welcome back, Test\n')
  assert.equal(await run(), 'Welcome back, Test\n')
  assert.equal(statSync(join(folder.path, 'refresh-token')).mode & 0o777, 0o600)
})

test('a job logs in as a user of its own', async () => {
  const password = 'a long password of a job'
  const env = { ...process.env, ...deployment.env, PASSWORD: password }
  await execute('sh', ['-euc', recipe('5.', 'sh')], { cwd: PROJECT, env })
  await folder.write('job.js', recipe('5.', 'js'))
  assert.equal(await folder.run([NODE, 'job.js'], { PASSWORD: password }), '200 job\n')
})

test('curl logs in, asks for the session, refreshes and logs out', async () => {
  await folder.write('curl.sh', recipe('5.', 'sh', 1))
  const output = await folder.run(['sh', '-eu', 'curl.sh'], { EMAIL, PASSWORD })
  assert.match(output, /^\{"success":true,"data":\{"user":\{.*"current":true.*\{\}\}$/s)
})

test('a service for tests has a port of its own, a correct issuer and short tokens', async () => {
  const script = `
    const body = JSON.stringify({ email: 'kate@example.com', password: 'correct horse battery' })
    const options = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body }
    const answer = await fetch(process.env.LOGIN_URL + '/api/v1/auth/login', options)
    const { accessToken, expiresIn } = (await answer.json()).data
    const { iss } = JSON.parse(Buffer.from(accessToken.split('.')[1], 'base64url'))
    // The settings of the service must not reach the application under test.
    const { LOGIN_URL, PORT = '' } = process.env
    process.stdout.write(JSON.stringify([iss === LOGIN_URL, expiresIn, PORT]))`
  const start = recipe('Tests of your application', 'sh')
  const use = 'node --input-type=module --eval "$SCRIPT"; echo " $data"'
  const { stdout } = await execute('sh', ['-euc', `${start}${use}`], {
    cwd: PROJECT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, SCRIPT: script },
  })
  const [printed = '', dataDir = ''] = stdout.trim().split('\n').at(-1)?.split(' ') ?? []
  assert.deepEqual(JSON.parse(printed), [true, 5, ''])
  assert.ok(!existsSync(dataDir))
})

// The last test: it ends the service.
test('Node verifies with the keys that it has while the service is down; without keys it is no 401', async () => {
  const { accessToken } = (await service.login(EMAIL)).json.data
  service.kill('SIGKILL')
  await service.exit
  assert.equal((await ask(accessToken)).status, 200)
  const fresh = await folder.serve('server.js')
  assert.equal((await ask(accessToken, fresh)).status, 503)
})
