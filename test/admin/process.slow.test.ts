// The admin API of a service in its own process: start, commands, certificate and shutdown.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { connect } from 'node:tls'
import { promisify } from 'node:util'
import { ensureKeyFile } from '../../src/keys/key-file.ts'
import { makeCertificate, writeCertificate } from '../support/certificates.ts'
import { MAIN } from '../support/cli.ts'
import { ENGINES } from '../support/engines.ts'
import { freePort } from '../support/postgres-server.ts'
import { BASE_ENV, createDeployment, run, until } from '../support/process.ts'
import { createClient } from '../support/service.ts'

const exec = promisify(execFile)

describe('in production', () => {
  let folder: string
  let production: Record<string, string>
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'login-admin-'))
    production = {
      NODE_ENV: 'production',
      BCRYPT_COST: '10',
      DATA_DIR: folder,
      SIGNING_KEYS_FILE: join(folder, 'signing-keys.json'),
      ADMIN_PORT: String(await freePort()),
      ...(await writeCertificate(folder, 'valid')),
    }
    await ensureKeyFile(join(folder, 'signing-keys.json'), new Date())
  })
  after(() => rm(folder, { recursive: true }))

  test('the service starts without a token, and warns of that', async () => {
    const service = run(production)
    await service.line('service.started')
    const warned = service.lines().filter(({ event }) => event === 'service.warning')
    assert.ok(
      warned.some(({ msg }) =>
        /there is no admin token yet: run "admin-tokens add"/.test(String(msg)),
      ),
    )
    service.kill('SIGKILL')
    await service.exit
  })

  for (const pair of ['the public one', 'its own']) {
    test(`a renewed certificate is served on the admin port too, if it is ${pair}`, async () => {
      const own = await writeCertificate(folder, 'own')
      const files = pair === 'its own' ? own : production
      const service = run({
        ...production,
        ...(files === own && {
          ADMIN_TLS_CERT_FILE: own.TLS_CERT_FILE,
          ADMIN_TLS_KEY_FILE: own.TLS_KEY_FILE,
        }),
      })
      await service.line('service.started')
      const served = () =>
        new Promise<string>((resolve, reject) => {
          const options = { port: Number(production.ADMIN_PORT), rejectUnauthorized: false }
          const socket = connect(options, () => {
            resolve(socket.getPeerCertificate().fingerprint256)
            socket.destroy()
          }).on('error', reject)
        })
      const installed = new X509Certificate(await readFile(files.TLS_CERT_FILE ?? ''))
      assert.equal(await served(), installed.fingerprint256)
      const { cert, key, fingerprint } = await makeCertificate()
      await writeFile(files.TLS_KEY_FILE ?? '', key)
      await writeFile(files.TLS_CERT_FILE ?? '', cert)
      service.kill('SIGHUP')
      await until(async () => (await served()) === fingerprint)
      service.kill('SIGTERM')
      assert.deepEqual(await service.exit, { code: 0, signal: null })
    })
  }
})

for (const engine of ENGINES) {
  test(`on ${engine}, a shutdown lets a change end, and then closes the admin port`, async t => {
    const deployment = await createDeployment(engine)
    t.after(() => deployment.remove())
    const ADMIN_PORT = String(await freePort())
    const service = await deployment.start({ ADMIN_PORT })
    const client = await createClient(`https://127.0.0.1:${ADMIN_PORT}`, deployment.dataDir)
    t.after(client.close)
    const env = { ...BASE_ENV, ...deployment.env }
    const add = [MAIN, 'admin-tokens', 'add', 'one', '--role', 'write']
    const { stdout } = await exec(process.execPath, add, { env })
    const headers = { Authorization: `Bearer ${stdout.trim()}` }
    const email = 'locked@example.com'
    await deployment.addUser(email)
    const path = `/admin/v1/users/${email}/lock`
    assert.equal((await client.call({ method: 'PUT', path, headers })).status, 200)
    // After the change the request waits until no instance has a block of this email in its cache.
    const unlocking = client.call({ method: 'DELETE', path, headers })
    const { rows } = deployment.database
    const recorded = "select 1 as one from audit_events where action = 'user.unlocked'"
    await until(async () => (await rows(recorded)).length > 0)
    service.kill('SIGTERM')
    assert.equal((await unlocking).status, 200)
    assert.deepEqual(await service.exit, { code: 0, signal: null })
    await assert.rejects(client.call({ method: 'GET', path, headers }), /ECONNREFUSED/)
  })
}
