// The messages of the first start are correct: the address of the page, the command, the issuer.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { decodeJwt } from 'jose'
import { ENGINES } from '../support/engines.ts'
import { createDeployment, PROJECT } from '../support/process.ts'
import { WITH_THREADS } from '../support/service.ts'

const execute = promisify(execFile)

test('the page is at the logged address, and the certificate is valid for its name', async t => {
  const deployment = await createDeployment('sqlite', WITH_THREADS)
  t.after(() => deployment.remove())
  const service = await deployment.start()
  const { page } = await service.line('service.started')
  assert.equal(page, `https://localhost:${new URL(service.url).port}/login`)
  const ca = await readFile(join(deployment.dataDir, 'development-cert.pem'))
  const status = await new Promise((resolve, reject) => {
    request(String(page), { ca }, answer => resolve(answer.resume().statusCode))
      .once('error', reject)
      .end()
  })
  assert.equal(status, 200)
})

for (const engine of ENGINES) {
  test(`without users, the start logs a command that adds the first user, on ${engine}`, async t => {
    const deployment = await createDeployment(engine, WITH_THREADS)
    t.after(() => deployment.remove())
    const first = await deployment.start()
    const { msg } = await first.line('service.no_users')
    const [, command = ''] = /(\.\/login-service .*)$/.exec(String(msg)) ?? []
    const typed = command.replace('EMAIL', 'kate@example.com').replace('NAME', 'Kate')
    await execute('sh', ['-c', `${typed} --generate`], {
      cwd: PROJECT,
      env: { ...process.env, ...deployment.env },
    })

    first.kill('SIGTERM')
    await first.exit
    const second = await deployment.start()
    second.kill('SIGTERM')
    await second.exit
    assert.ok(!second.lines().some(({ event }) => event === 'service.no_users'))
  })
}

test('with PORT=0, issuer and audience of tokens have the bound port, and the tokens are accepted', async t => {
  const deployment = await createDeployment('sqlite', { ...WITH_THREADS, JWT_ISSUER: '' })
  t.after(() => deployment.remove())
  await deployment.addUser('kate@example.com')
  const service = await deployment.start()
  const issuer = `https://localhost:${new URL(service.url).port}`
  const { json } = await service.login('kate@example.com')
  const { accessToken, refreshToken } = json.data
  assert.equal(decodeJwt(accessToken).iss, issuer)
  assert.equal(decodeJwt(accessToken).aud, issuer)
  assert.equal(decodeJwt(refreshToken).iss, issuer)
  const refreshed = await service.call({ path: '/api/v1/auth/refresh', body: { refreshToken } })
  assert.equal(refreshed.status, 200)
  const headers = { Authorization: `Bearer ${refreshed.json.data.accessToken}` }
  const session = await service.call({ method: 'GET', path: '/api/v1/auth/session', headers })
  assert.equal(session.status, 200)
})
