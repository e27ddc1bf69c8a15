// The doctor asks the running service for its certificate.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { after, before, test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import type { Finding } from '../src/admin/doctor/finding.ts'
import { makeCertificate, writeCertificate } from './certificates.ts'
import { type Cli, createCli, productionEnv } from './cli.ts'
import { createTestDatabase, type TestDatabase } from './engines.ts'
import { run } from './process.ts'

let database: TestDatabase
let cli: Cli
let production: Record<string, string>

before(async () => {
  database = await createTestDatabase('sqlite')
  cli = await createCli(database)
  production = await productionEnv(cli)
})
after(async () => {
  await cli.remove()
  await database.drop()
})

async function runningWith(env: Record<string, string>): Promise<string> {
  const { stdout } = await cli.run(['doctor', '--json'], '', { ...production, ...env })
  const findings: Finding[] = JSON.parse(stdout)
  const found = findings.find(({ check }) => check === 'running')
  return found ? `${found.state}: ${found.detail}` : 'nothing'
}

for (const host of ['0.0.0.0', '::1']) {
  test(`on ${host}: the installed one is told from an older one`, async t => {
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

test('one that has expired is a problem', async t => {
  const { cert, key } = await makeCertificate({ fromDays: -9, toDays: -1 })
  const server = createTlsServer({ cert, key })
  t.after(() => server.close())
  assert.match(
    await runningWith({ PORT: await listenAnywhere(server) }),
    /^problem: the running service still serves an older certificate, which has expired: send/,
  )
})

test('a program without TLS is named as one, and a silent one is not waited for', async t => {
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

test('behind a proxy, or without a port, there is nothing to ask', async () => {
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
