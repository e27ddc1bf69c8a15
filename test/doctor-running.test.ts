// The doctor compares the certificate that the running service serves with the installed one.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { makeCertificate, writeCertificate } from './certificates.ts'
import { setUpDoctor } from './doctor.ts'
import { run } from './process.ts'

const { cli, production, examine } = await setUpDoctor()

async function runningWith(env: Record<string, string>): Promise<string> {
  const { findings } = await examine({ ...production, ...env })
  const found = findings.find(({ check }) => check === 'running')
  return found ? `${found.state}: ${found.detail}` : 'nothing'
}

for (const host of ['0.0.0.0', '::1']) {
  test(`on ${host}, the installed certificate is ok, and an older one is warned of`, async t => {
    const env = { DATA_DIR: cli.folder, HOST: host }
    const service = run({ ...production, ...env })
    t.after(() => service.kill('SIGKILL'))
    const { address } = await service.line('service.started')
    const PORT = new URL(String(address)).port
    assert.equal(
      await runningWith({ HOST: host, PORT }),
      `ok: ${host}, port ${PORT} serves this certificate`,
    )
    const renewed = await writeCertificate(cli.folder, 'renewed', { fromDays: -0.5 })
    assert.match(
      await runningWith({ HOST: host, PORT, ...renewed }),
      /^warning: the running service still serves an older certificate: send it SIGHUP and look/,
    )
  })
}

test('an older certificate that has expired is a problem', async t => {
  const { cert, key } = await makeCertificate({ fromDays: -9, toDays: -1 })
  const server = createTlsServer({ cert, key })
  t.after(() => server.close())
  assert.match(
    await runningWith({ PORT: await listenAnywhere(server) }),
    /^problem: the running service still serves an older certificate, which has expired: send/,
  )
})

test('a program without TLS is warned of, and a silent one within 2 seconds', async t => {
  const chatty = createServer(socket => socket.on('error', () => {}).end('hello'))
  const silent = createServer(() => {})
  t.after(() => {
    for (const server of [chatty, silent]) server.close()
  })
  const chattyPort = await listenAnywhere(chatty)
  assert.match(await runningWith({ PORT: chattyPort }), /^warning: no TLS on .*another program\?$/)
  const silentPort = await listenAnywhere(silent)
  assert.match(await runningWith({ PORT: silentPort }), /^warning: no TLS .*within 2 s\): is it/)
})

test('behind a proxy, or without a fixed port, the check is left out', async () => {
  const proxied = { TLS_CERT_FILE: '', TLS_KEY_FILE: '', TRUST_PROXY: '192.0.2.1' }
  assert.equal(await runningWith(proxied), 'nothing')
  assert.equal(await runningWith({ PORT: '0' }), 'nothing')
})

async function listenAnywhere(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  assert.ok(address !== null && typeof address === 'object')
  return String(address.port)
}
