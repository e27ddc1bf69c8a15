// The admin API of a service in its own process: start, commands, certificate and shutdown.
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { connect } from 'node:tls'
import { ensureKeyFile } from '../../src/keys/key-file.ts'
import { makeCertificate, writeCertificate } from '../support/certificates.ts'
import { createCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own, ownFolder } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { createDeployment, run, until } from '../support/process.ts'
import { createClient } from '../support/service.ts'

describe('in production', async () => {
  const folder = await ownFolder()
  const production = {
    NODE_ENV: 'production',
    BCRYPT_COST: '10',
    PASSWORD_ENGINE: 'native',
    DATA_DIR: folder,
    SIGNING_KEYS_FILE: join(folder, 'signing-keys.json'),
    ADMIN_PORT: String(await freePort()),
    ...(await writeCertificate(folder, 'valid')),
  }
  await ensureKeyFile(production.SIGNING_KEYS_FILE, new Date())

  for (const pair of ['the public one', 'its own']) {
    test(`the service starts without a token and warns of that; a renewed certificate is served on the admin port too, if it is ${pair}`, async t => {
      const own = await writeCertificate(folder, 'own')
      const adminTls = {
        ADMIN_TLS_CERT_FILE: own.TLS_CERT_FILE,
        ADMIN_TLS_KEY_FILE: own.TLS_KEY_FILE,
      }
      const [files, env] = pair === 'its own' ? [own, adminTls] : [production, {}]
      const service = run({ ...production, ...env })
      t.after(() => service.kill('SIGKILL'))
      await service.line('service.started')
      const warned = service.lines().filter(({ event }) => event === 'service.warning')
      const advice = 'there is no admin token yet: run "admin-tokens add"'
      assert.ok(warned.some(({ msg }) => String(msg).includes(advice)))
      const served = () =>
        new Promise<string>((resolve, reject) => {
          const options = { port: Number(production.ADMIN_PORT), rejectUnauthorized: false }
          const socket = connect(options, () => {
            resolve(socket.getPeerCertificate().fingerprint256)
            socket.destroy()
          }).on('error', reject)
        })
      const installed = new X509Certificate(await readFile(files.TLS_CERT_FILE))
      assert.equal(await served(), installed.fingerprint256)
      const { cert, key, fingerprint } = await makeCertificate()
      await writeFile(files.TLS_KEY_FILE, key)
      await writeFile(files.TLS_CERT_FILE, cert)
      service.kill('SIGHUP')
      await until(async () => (await served()) === fingerprint)
      service.kill('SIGTERM')
      assert.deepEqual(await service.exit, { code: 0, signal: null })
    })
  }
})

for (const engine of ENGINES_BY_RUN) {
  test(`on ${engine}, a shutdown lets a change end, and then closes the admin port`, async () => {
    const deployment = await own(createDeployment(engine))
    const ADMIN_PORT = String(await freePort())
    const service = await deployment.start({ ADMIN_PORT })
    const client = await createClient(`https://127.0.0.1:${ADMIN_PORT}`, deployment.dataDir)
    after(client.close)
    const cli = await own(createCli(deployment.database))
    const { stdout } = await cli.run(['admin-tokens', 'add', 'one', '--role', 'write'])
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
