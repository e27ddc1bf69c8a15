// Half-sent bodies through HAProxy. files.test.ts has Caddy; nginx buffers bodies.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { own } from '../../support/own.ts'
import { createDeployment } from '../../support/process.ts'
import { assertHarmless } from '../half-sent.ts'
import { BEHIND_BALANCER, chooseTargets, startBalancer } from './balancer.ts'

const EMAIL = 'kate@example.com'
const BUFFERING = /option http-buffer-request/

for (const isBuffering of [true, false]) {
  const way = isBuffering ? 'keeps half-sent bodies' : 'streams bodies'
  test(`HAProxy ${way}: those of one client keep no other from logging in`, async () => {
    const deployment = await own(createDeployment('sqlite', BEHIND_BALANCER))
    await deployment.addUser(EMAIL)
    const targets = await chooseTargets(1)
    const { port = '', opsPort = '' } = targets[0] ?? {}
    const service = await deployment.start({ PORT: port, OPS_PORT: opsPort })
    const change = (code: string) => (isBuffering ? code : code.replace(BUFFERING, ''))
    // More than a client may have.
    await assertHarmless(await startBalancer('haproxy', targets, change), EMAIL, 300)
    // Then all its lines have come, and a missing one is not waited for.
    service.kill('SIGTERM')
    await service.exit
    const limited = service.lines().find(({ event }) => event === 'connection.limited')
    assert.equal(limited?.ip, isBuffering ? undefined : '127.0.0.2')
  })
}
