// Keys and certificates as Kubernetes mounts them: links to read-only files of root, which the service
// reads as a member of their group.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { chmod, chown, mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { ensureKeyFile } from '../../src/keys/key-file.ts'
import type { Finding } from '../../src/system/finding.ts'
import { makeCertificate } from '../support/certificates.ts'
import { ownFolder } from '../support/own.ts'
import { UNPRIVILEGED } from '../support/postgres-server.ts'
import { PROJECT, run, runOwned, SERVE, stop } from '../support/process.ts'

const MANIFEST = readFileSync(join(PROJECT, 'deploy/kubernetes.yaml'), 'utf8')
const MOUNTED_MODE = Number.parseInt(/defaultMode: (\d+)/.exec(MANIFEST)?.[1] ?? '', 8)
const IS_ROOT = process.getuid?.() === 0
/** Only root can give files to another user than the one that runs the service. */
const identity = IS_ROOT ? UNPRIVILEGED : {}
const [node = '', ...serve] = SERVE
const DOCTOR = [node, ...serve.slice(0, -1), 'doctor', '--json']

const folder = await ownFolder('login-mounted-')
const mounted = (name: string) => join(folder, 'mounted', name)
const target = (name: string) => join(folder, 'mounted', '..2030_01_31', name)

const { cert, key } = await makeCertificate()
await mkdir(join(folder, 'mounted', '..2030_01_31'), { recursive: true })
await symlink('..2030_01_31', join(folder, 'mounted', '..data'))
await ensureKeyFile(target('signing-keys.json'), new Date())
await writeFile(target('tls.crt'), cert)
await writeFile(target('tls.key'), key)
for (const name of ['signing-keys.json', 'tls.crt', 'tls.key']) {
  await symlink(join('..data', name), mounted(name))
  if (IS_ROOT) await chown(target(name), 0, UNPRIVILEGED.gid)
  await chmod(target(name), MOUNTED_MODE)
}
await mkdir(join(folder, 'data'))
if (IS_ROOT) await chown(join(folder, 'data'), UNPRIVILEGED.uid, UNPRIVILEGED.gid)
await chmod(folder, 0o755)
const env = {
  NODE_ENV: 'production',
  // The name in the certificate.
  JWT_ISSUER: 'https://localhost',
  BCRYPT_COST: '10',
  DATA_DIR: join(folder, 'data'),
  SIGNING_KEYS_FILE: mounted('signing-keys.json'),
  TLS_CERT_FILE: mounted('tls.crt'),
  TLS_KEY_FILE: mounted('tls.key'),
}

async function examine(other = {}, checks = ['tls', 'keys']): Promise<string[]> {
  const doctor = run({ ...env, ...other }, { command: DOCTOR, identity })
  await doctor.exit
  const findings: Finding[] = JSON.parse(doctor.output().replace(/^\d+ problems? found\.$/m, ''))
  return findings
    .filter(({ check }) => checks.includes(check))
    .map(({ check, state, detail }) => `${check} ${state}: ${detail}`)
}

test('the service starts with files that its group may read, and the doctor finds nothing', async () => {
  const service = runOwned(env, { identity })
  await service.line('service.started')
  await stop(service)
  for (const finding of await examine()) assert.match(finding, /^\D+ ok: /)
})

test('the doctor and the start warn of a group that the service is not in', {
  skip: !IS_ROOT && 'only root can give a file to a group that it is not in',
}, async () => {
  for (const name of ['tls.key', 'signing-keys.json']) {
    await chown(target(name), UNPRIVILEGED.uid, 1)
  }
  for (const finding of await examine()) {
    assert.match(
      finding,
      /^\D+ warning: \S+ can be read by the group 1, which this process is not in: chgrp it/,
    )
  }
  const service = runOwned(env, { identity })
  await service.line('service.started')
  const warned = service.lines().filter(({ event }) => event === 'service.warning')
  const text = `${mounted('signing-keys.json')} can be read by the group 1`
  assert.equal(warned.filter(({ msg }) => String(msg).startsWith(text)).length, 1)
})

test('a data folder that cannot be written to is ok with PostgreSQL in production, not with SQLite', {
  skip: !IS_ROOT && 'only root can run the doctor as another user',
}, async () => {
  const DATA_DIR = join(folder, 'of-root')
  await mkdir(DATA_DIR)
  const DATABASE_URL = 'postgres://ann@127.0.0.1:1/login?sslmode=disable'
  assert.deepEqual(await examine({ DATA_DIR, DATABASE_URL }, ['data folder']), [
    `data folder ok: ${DATA_DIR}`,
  ])
  const [refused = ''] = await examine({ DATA_DIR }, ['data folder'])
  assert.match(
    refused,
    /^data folder problem: The data folder .* belongs to the user with the id 0/,
  )
})
