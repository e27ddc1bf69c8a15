// The doctor compares the certificate that the running service serves with the installed one.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Server } from 'node:net'
import { after, test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import type { Finding } from '../../src/system/finding.ts'
import { makeCertificate, writeCertificate } from '../support/certificates.ts'
import { freePort } from '../support/postgres-server.ts'
import { run } from '../support/process.ts'
import { setUpDoctor } from './doctor.ts'

const { cli, production, examine } = await setUpDoctor()

/** On a busy machine a service may answer too late for the doctor, which then examines it again. */
const isTooLate = ({ detail }: Finding) => detail.includes('no answer within')

async function runningWith(env: Record<string, string>, isSilent = false): Promise<string> {
  for (;;) {
    const { findings } = await examine({ ...production, ...env })
    const found = findings.find(({ check }) => check === 'running')
    if (!found) return 'nothing'
    if (isSilent || !isTooLate(found)) return `${found.state}: ${found.detail}`
  }
}

for (const host of ['0.0.0.0', '::1']) {
  test(`on ${host}, the installed certificate is ok, and an older one is warned of`, async t => {
    const service = run({ ...production, DATA_DIR: cli.folder, HOST: host })
    t.after(() => service.kill('SIGKILL'))
    const { address } = await service.line('service.started')
    const PORT = new URL(String(address)).port
    const ok = `ok: ${host}, port ${PORT} serves this certificate`
    assert.equal(await runningWith({ HOST: host, PORT }), ok)
    const renewed = await writeCertificate(cli.folder, 'renewed', { fromDays: -0.5 })
    assert.match(
      await runningWith({ HOST: host, PORT, ...renewed }),
      /^warning: the running service still serves an older certificate: send it SIGHUP and look/,
    )
  })
}

test('the admin API is checked only if it is on: its address, its tokens, and that it answers', async t => {
  const ADMIN_PORT = String(await freePort())
  const admin = { ...production, ADMIN_PORT }
  const about = async (env: Record<string, string>) => {
    let { findings } = await examine({ ...admin, ...env })
    while (findings.some(isTooLate)) findings = (await examine({ ...admin, ...env })).findings
    const shown = findings.filter(({ check, detail }) => /admin/.test(`${check} ${detail}`))
    return shown.map(({ check, state, detail }) => `${check} ${state}: ${detail}`)
  }
  assert.deepEqual(await about({ ADMIN_PORT: '0' }), [])
  const address = `admin API ok: 127.0.0.1, port ${ADMIN_PORT}`
  const add = ['admin-tokens', 'add', 'a', '--role', 'write']
  assert.equal((await cli.run(add, '', admin)).code, 0)
  const present = 'admin tokens ok: 1 tokens, 1 of them may write'
  assert.deepEqual(await about({}), [address, present])
  const [wide] = await about({ ADMIN_HOST: '0.0.0.0' })
  assert.match(wide ?? '', /^admin API warning: 0\.0\.0\.0, port \d+: others can reach it/)

  const service = run({ ...admin, DATA_DIR: cli.folder })
  t.after(() => service.kill('SIGKILL'))
  const { address: url, admin: adminUrl } = await service.line('service.started')
  assert.equal(adminUrl, `https://127.0.0.1:${ADMIN_PORT}`)
  const PORT = new URL(String(url)).port
  const answers = `running ok: the admin API answers on 127.0.0.1, port ${ADMIN_PORT}`
  assert.deepEqual(await about({ PORT }), [address, answers, present])
  const own = await writeCertificate(cli.folder, 'own', { fromDays: -0.5 })
  const [, certificate = '', older = ''] = await about({
    PORT,
    ADMIN_TLS_CERT_FILE: own.TLS_CERT_FILE,
    ADMIN_TLS_KEY_FILE: own.TLS_KEY_FILE,
  })
  assert.match(certificate, /^admin tls ok: certificate for .*, 99 days left$/)
  assert.match(older, /^running warning: admin API: the running service still serves an older cert/)
  const [, silent = ''] = await about({ PORT, ADMIN_PORT: '1' })
  assert.match(silent, /^running warning: the admin API does not answer on 127\.0\.0\.1, port 1/)
})

test('a proxy that sends plain HTTP to a port that speaks TLS is warned of', async t => {
  const OPS_PORT = String(await freePort())
  const proxied = { ...production, TRUST_PROXY: '127.0.0.1', OPS_PORT }
  const warned = async () => {
    const { findings } = await examine(proxied)
    return findings.filter(({ check }) => check === 'proxies')
  }
  assert.deepEqual(await warned(), [])
  const service = run({ ...proxied, DATA_DIR: cli.folder })
  t.after(() => service.kill('SIGKILL'))
  const { address } = await service.line('service.started')
  assert.deepEqual(await warned(), [])
  const { host } = new URL(String(address))
  assert.equal((await fetch(`http://${host}/api/v1/auth/login`, { method: 'POST' })).status, 400)
  const [{ state, detail } = {}] = await warned()
  assert.match(
    `${state}: ${detail}`,
    /^warning: a proxy sent plain HTTP to PORT, which speaks TLS \(requests since its start: 1\): .* leave out TLS_CERT_FILE/,
  )
})

/** The port on which it listens until the calling test has ended. */
async function portOf(server: Server): Promise<string> {
  after(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  assert.ok(address !== null && typeof address === 'object')
  return String(address.port)
}

test('an older certificate that has expired is a problem', async () => {
  const PORT = await portOf(createTlsServer(await makeCertificate({ fromDays: -9, toDays: -1 })))
  assert.match(
    await runningWith({ PORT }),
    /^problem: the running service still serves an older certificate, which has expired: send/,
  )
})

const BEHIND_PROXY = { TLS_CERT_FILE: '', TLS_KEY_FILE: '', TRUST_PROXY: '192.0.2.1' }

test('another program is warned of: without TLS, silent for 2 seconds, on OPS_PORT, or behind a proxy', async () => {
  const chatty = createServer(socket => socket.on('error', () => {}).end('hello'))
  const PORT = await portOf(chatty)
  assert.match(await runningWith({ PORT }), /^warning: no TLS on .*another program\?$/)
  const silent = { PORT: await portOf(createServer(() => {})) }
  assert.match(await runningWith(silent, true), /^warning: no TLS .*within 2 s\): is it/)
  const port = await portOf(createHttpServer((_, response) => response.end('hello')))
  assert.match(
    await runningWith({ ...BEHIND_PROXY, OPS_PORT: port }),
    /^warning: no health endpoints on 127\.0\.0\.1, port \d+: has another program OPS_PORT\?$/,
  )
  const OPS_PORT = String(await freePort())
  assert.match(
    await runningWith({ ...BEHIND_PROXY, PORT: port, OPS_PORT }),
    /^warning: 127\.0\.0\.1, port \d+ is in use, but .*: is it another program\?$/,
  )
})

test('behind a proxy, or without a fixed port, the check is left out', async () => {
  assert.equal(await runningWith(BEHIND_PROXY), 'nothing')
  assert.equal(await runningWith({ PORT: '0' }), 'nothing')
})
