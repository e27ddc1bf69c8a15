// Runs the examples as separate processes, over real TLS.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { PASSWORD, startTestService, type TestService } from './service.ts'

const EXAMPLES = resolve(import.meta.dirname, '../examples')

function start(service: TestService, args: string[], env: Record<string, string> = {}) {
  const trusting = { NODE_EXTRA_CA_CERTS: join(service.dataDir, 'development-cert.pem') }
  return spawn(process.execPath, args, {
    env: { ...process.env, ...trusting, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

/** Runs a script that can use `client` and `print`; returns the printed values. */
async function runScript(service: TestService, script: string): Promise<unknown[]> {
  const code = `
    import { LoginClient, LoginError } from ${JSON.stringify(join(EXAMPLES, 'login-client.ts'))}
    const client = new LoginClient(${JSON.stringify(service.url)})
    const print = value => process.stdout.write(JSON.stringify(value) + '\\n')
    ${script}`
  const child = start(service, ['--input-type=module', '--eval', code])
  const [output, [exitCode]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  assert.equal(exitCode, 0)
  return output
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
}

test('the client logs in, refreshes once for ten callers at once, and logs out', async context => {
  const service = await startTestService('sqlite')
  context.after(() => service.stop())
  await service.addUser('kate@example.com')
  const printed = await runScript(
    service,
    `print((await client.login('kate@example.com', ${JSON.stringify(PASSWORD)})).email)
     const first = await client.accessToken()
     print(first === await client.accessToken())
     const realNow = Date.now
     Date.now = () => realNow() + 3_590_000
     const many = await Promise.all(Array.from({ length: 10 }, () => client.accessToken()))
     print(new Set(many).size === 1 && many[0] !== first)
     await client.logout()
     print(client.user)
     print(await client.accessToken().catch(error => error.code))`,
  )
  assert.deepEqual(printed, ['kate@example.com', true, true, null, 'NOT_LOGGED_IN'])
  const events = service.logged().map(({ event }) => event)
  assert.equal(events.filter(event => event === 'session.refreshed').length, 1)
  assert.equal(events.filter(event => event === 'session.ended').length, 1)
})

test('the client throws an error with the status, the code and the seconds to wait', async context => {
  const service = await startTestService('sqlite')
  context.after(() => service.stop())
  const printed = await runScript(
    service,
    `for (let i = 0; i < 6; i++) {
       await client.login('kate@example.com', 'wrong').catch(error => {
         print([error instanceof LoginError, error.status, error.code, error.retryAfterSeconds])
       })
     }`,
  )
  assert.deepEqual(printed.at(0), [true, 401, 'INVALID_CREDENTIALS', null])
  assert.deepEqual(printed.at(-1), [true, 429, 'TOO_MANY_ATTEMPTS', 900])
})

test('the resource server accepts an access token, and no refresh token or invalid token', async context => {
  const service = await startTestService('sqlite', { JWT_ISSUER: 'https://login.example.com' })
  const server = start(service, [join(EXAMPLES, 'resource-server.ts')], {
    ISSUER: 'https://login.example.com',
    JWKS_URL: `${service.url}/.well-known/jwks.json`,
    PORT: '0',
  })
  context.after(async () => {
    server.kill()
    await service.stop()
  })
  const [line] = await once(createInterface({ input: server.stdout }), 'line')
  const url = `${String(line).replace('listening on ', '')}/me`
  await service.addUser('kate@example.com')
  const { data } = (await service.login('kate@example.com', PASSWORD)).json
  const ask = (token: string) => fetch(url, { headers: { Authorization: `Bearer ${token}` } })

  const accepted = await ask(data.accessToken)
  assert.equal(accepted.status, 200)
  assert.deepEqual(await accepted.json(), {
    id: data.user.id,
    email: 'kate@example.com',
    role: 'user',
  })
  const changed = `${data.accessToken.slice(0, -2)}AA`
  for (const token of [data.refreshToken, changed, 'x', '']) {
    assert.equal((await ask(token)).status, 401)
  }
})
