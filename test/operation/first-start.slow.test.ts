// The messages of the first start are correct: the address of the page, the command, the issuer.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { decodeJwt } from 'jose'
import { ENGINES } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { createDeployment, PROJECT, stop } from '../support/process.ts'
import { createClient, WITH_THREADS } from '../support/service.ts'
import { bearer } from '../support/session-client.ts'

for (const engine of ENGINES) {
  test(`the logged page is served, the logged command adds the first user, and tokens have the bound port, on ${engine}`, async () => {
    const deployment = await own(createDeployment(engine, { ...WITH_THREADS, JWT_ISSUER: '' }))
    const first = await deployment.start()
    const { page } = await first.line('service.started')
    assert.equal(page, `https://localhost:${new URL(first.url).port}/login`)
    // Trusts only the development certificate, which must be valid for this name.
    const client = await createClient(String(page), deployment.dataDir)
    assert.equal((await client.call({ method: 'GET', path: '/login' })).status, 200)
    client.close()

    const { msg } = await first.line('service.no_users')
    const [, command = ''] = /(\.\/login-service .*)$/.exec(String(msg)) ?? []
    const typed = command.replace('EMAIL', 'kate@example.com').replace('NAME', 'Kate')
    await promisify(execFile)('sh', ['-c', `${typed} --generate`], {
      cwd: PROJECT,
      env: { ...process.env, ...deployment.env },
    })
    await stop(first)

    const second = await deployment.start()
    await deployment.addUser('ann@example.com')
    const { accessToken, refreshToken } = (await second.login('ann@example.com')).json.data
    const issuer = `https://localhost:${new URL(second.url).port}`
    assert.equal(decodeJwt(accessToken).iss, issuer)
    assert.equal(decodeJwt(accessToken).aud, issuer)
    assert.equal(decodeJwt(refreshToken).iss, issuer)
    const refresh = { path: '/api/v1/auth/refresh', body: { refreshToken } }
    const headers = bearer((await second.call(refresh)).json.data.accessToken)
    const session = await second.call({ method: 'GET', path: '/api/v1/auth/session', headers })
    assert.equal(session.status, 200)
    await stop(second)
    assert.ok(!second.lines().some(({ event }) => event === 'service.no_users'))
  })
}
