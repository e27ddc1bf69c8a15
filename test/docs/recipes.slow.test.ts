// Runs the commands and the code of the README and of docs/ that need neither a browser nor other languages, all with
// one service.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { findMachineNode } from '../support/old-node.ts'
import { own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { BASE_ENV, createDeployment, PROJECT } from '../support/process.ts'
import { DOCUMENT_ON_MIGRATING, makeRecipeFolder, recipe } from '../support/recipes.ts'
import { createClient, PASSWORD, WITH_THREADS } from '../support/service.ts'

const execute = promisify(execFile)
const NODE = findMachineNode()
const EMAIL = 'test@example.com'
const SHELL_BLOCK = /```sh\n(.*?)```/gs

const blocksOf = (file: string) =>
  [...readFileSync(join(PROJECT, file), 'utf8').matchAll(SHELL_BLOCK)].map(match => match[1] ?? '')

describe('as printed', async () => {
  const deployment = await own(createDeployment('sqlite', { JWT_ISSUER: '', ...WITH_THREADS }))
  const ADMIN_PORT = String(await freePort())
  const service = await deployment.start({ ADMIN_PORT })
  await deployment.addUser(EMAIL)
  const env = { ...BASE_ENV, ...deployment.env, HOME: deployment.dataDir }
  const runShell = async (script: string, more: NodeJS.ProcessEnv = {}) =>
    (await execute('sh', ['-euc', script], { cwd: PROJECT, env: { ...env, ...more } })).stdout
  let application = ''
  const addresses = {
    'https://login.example.com:8444': `https://localhost:${ADMIN_PORT}`,
    'https://login.example.com': service.url.replace('127.0.0.1', 'localhost'),
    get 'https://app.example.com'() {
      return application
    },
  }
  const certFile = join(deployment.dataDir, 'development-cert.pem')
  const folder = await own(makeRecipeFolder(addresses, certFile))
  await folder.write('server.js', recipe('Node', 'js'))
  application = await folder.serve('server.js')

  async function ask(token: string | null, address = application) {
    const client = await createClient(address, deployment.dataDir)
    after(() => client.close())
    const headers = token === null ? {} : { Authorization: `Bearer ${token}` }
    return client.call({ method: 'GET', path: '/api/me', headers })
  }

  test('the README’s first user logs in with the README’s request', async () => {
    const block = blocksOf('README.md').find(candidate => candidate.includes('users add')) ?? ''
    const [add = '', ...curl] = block.trim().split('\n')
    await runShell(add)
    const request = curl.join(' ')
    const [, path = ''] = /https:\/\/localhost:8443(\S+)/.exec(request) ?? []
    const [, type = ''] = /-H 'Content-Type: ([^']+)'/.exec(request) ?? []
    const [, body = ''] = /-d '([^']+)'/.exec(request) ?? []
    const answer = await service.call({ path, headers: { 'Content-Type': type }, body })
    assert.equal(answer.status, 200)
    assert.equal(answer.json.data.user.email, 'kate@example.com')
  })

  test('the demo prints answers of every status and no token, and ends by Ctrl-C', async () => {
    const demo = spawn(process.execPath, [join(PROJECT, 'demo/tour.ts')], { cwd: PROJECT })
    let stdout = ''
    for await (const text of demo.stdout.setEncoding('utf8')) {
      stdout += text
      if (stdout.includes('Ctrl-C')) demo.kill('SIGINT')
    }
    if (demo.exitCode === null) await once(demo, 'exit')
    assert.equal(demo.exitCode, 0)
    for (const status of ['200 OK', '400', '401', '429', '405']) {
      assert.ok(stdout.includes(`HTTP/1.1 ${status}`), status)
    }
    assert.match(stdout, /same to the byte: yes/)
    assert.match(stdout, /^The page: https:\/\/\S+\/login, for ben@example.com/m)
    assert.doesNotMatch(stdout, /eyJ[\w-]{30}/)
  })

  test('the commands of docs/admin-api.md work', async () => {
    const blocks = blocksOf('docs/admin-api.md')
    assert.equal(blocks.length, 3)
    // A declared token is known, and may not read.
    const declared = 'TOKEN=$DECLARED; admin $URL/users || [ $? = 22 ]'
    const script = [...blocks, declared]
      .join('\n')
      .replace('localhost:8444', `localhost:${ADMIN_PORT}`)
    const answers = (await runShell(script)).trim().split('\n')
    assert.equal(JSON.parse(answers.pop() ?? '').error.code, 'FORBIDDEN')
    assert.equal(answers.length, script.match(/^admin .*(URL|\\$)/gm)?.length)
    const [added, listed, explained] = answers.map(answer => JSON.parse(answer))
    for (const answer of answers) assert.equal(JSON.parse(answer).success, true, answer)
    assert.equal(added.data.email, 'kim@example.com')
    assert.equal(listed.data.users.length, 1)
    assert.equal(explained.data.verdict.kind, 'can-log-in')
  })

  test('docs/migrating.md moves a user at a login in the old system, once, without failing that login', async () => {
    const code = recipe('Moving users at their next login', 'js', 0, DOCUMENT_ON_MIGRATING)
    await folder.write('move-user.js', code)
    const login = `import { moveUser } from './move-user.js'
      for (const user of JSON.parse(process.argv[2])) await moveUser(user)`
    await folder.write('old-login.js', login)
    const user = { email: 'lee@example.com', name: 'Lee', password: 'correct horse battery' }
    const short = { email: 'short@example.com', name: 'S', password: 'short' }
    const again = { ...user, password: 'another password of the old system' }
    assert.equal((await service.login(user.email, user.password)).status, 401)
    const added = await runShell('./login-service admin-tokens add old-login --role write')
    const ADMIN_TOKEN = added.trim()
    const users = JSON.stringify([user, again, short])
    await folder.run([NODE, 'old-login.js', users], { ADMIN_TOKEN })
    assert.equal((await service.login(user.email, user.password)).status, 200)
    assert.equal((await service.login(short.email, short.password)).status, 401)
  })

  test('Node verifies an access token, and no other token', async () => {
    const { accessToken, refreshToken, user } = (await service.login(EMAIL)).json.data
    const answer = await ask(accessToken)
    assert.equal(answer.status, 200)
    assert.deepEqual(answer.json, { id: user.id, name: 'Test', role: 'user' })
    for (const wrong of [refreshToken, 'x', '', null]) {
      assert.equal((await ask(wrong)).status, 401, wrong ?? 'none')
    }
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
    const job = { PASSWORD: 'a long password of a job' }
    await runShell(recipe('5.', 'sh'), job)
    await folder.write('job.js', recipe('5.', 'js'))
    assert.equal(await folder.run([NODE, 'job.js'], job), '200 job\n')
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
})
