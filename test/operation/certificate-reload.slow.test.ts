// A certificate that is renewed, or replaced by an unusable one, while the service runs; and keys and certificates as
// Kubernetes mounts them: links to read-only files of root, which the service reads as a member of their group.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { chmod, chown, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { ensureKeyFile } from '../../src/keys/key-file.ts'
import type { Finding } from '../../src/system/finding.ts'
import {
  makeCertificate,
  servedAt,
  shakeHands,
  type TestCertificate,
} from '../support/certificates.ts'
import { preload } from '../support/old-node.ts'
import { eventsOf, ownFolder } from '../support/own.ts'
import { UNPRIVILEGED } from '../support/postgres-server.ts'
import {
  type Line,
  PROJECT,
  type RunningProcess,
  run,
  runOwned,
  SERVE,
  stop,
  until,
} from '../support/process.ts'

const [node = '', ...serve] = SERVE
const folder = await ownFolder('login-tls-reload-')
const [certFile, keyFile] = [join(folder, 'tls', 'cert.pem'), join(folder, 'tls', 'key.pem')]
const production = {
  NODE_ENV: 'production',
  BCRYPT_COST: '10',
  JWT_ISSUER: 'https://login.example.com',
  DATA_DIR: folder,
  SIGNING_KEYS_FILE: join(folder, 'signing-keys.json'),
  TLS_CERT_FILE: certFile,
  TLS_KEY_FILE: keyFile,
}
await ensureKeyFile(production.SIGNING_KEYS_FILE, new Date())

async function install({ cert, key }: Pick<TestCertificate, 'cert' | 'key'>): Promise<void> {
  await mkdir(join(folder, 'tls'), { recursive: true })
  await writeFile(keyFile, key, { mode: 0o600 })
  await writeFile(certFile, cert)
}

/** As Kubernetes does: behind a link that is swapped. */
async function mount(volume: string, version: string, { cert, key }: TestCertificate) {
  await mkdir(join(volume, version), { recursive: true })
  await writeFile(join(volume, version, 'tls.crt'), cert)
  await writeFile(join(volume, version, 'tls.key'), key, { mode: 0o600 })
  await symlink(version, join(volume, '..new'))
  await rename(join(volume, '..new'), join(volume, '..data'))
}

async function isAnswered(socket: TLSSocket): Promise<boolean> {
  socket.write('GET /.well-known/jwks.json HTTP/1.1\r\nHost: localhost\r\n\r\n')
  const [answer] = await once(socket, 'data')
  return String(answer).startsWith('HTTP/1.1 200 OK')
}

/** The first line of this event after the action. */
async function nextLine(
  service: RunningProcess,
  event: string,
  action: () => unknown,
  message = /^/,
): Promise<Line> {
  const countBefore = service.lines().length
  const find = () =>
    service
      .lines()
      .slice(countBefore)
      .find(line => line.event === event && message.test(line.err?.message ?? ''))
  await action()
  await until(async () => find() !== undefined)
  return find() ?? assert.fail()
}

describe('while the service runs', async () => {
  const first = await makeCertificate()
  await install(first)
  const service = runOwned(production)
  const url = String((await service.line('service.started')).address)
  beforeEach(() =>
    nextLine(service, 'tls.reloaded', async () => {
      await rm(certFile, { recursive: true, force: true })
      await install(first)
      service.kill('SIGHUP')
    }),
  )

  test('a renewed certificate is served, open connections keep working, and old protocols and weak ciphers are refused', async () => {
    const open = await shakeHands(url)
    assert.ok(await isAnswered(open))
    const renewed = await makeCertificate({ toDays: 200, keyType: 'rsa' })
    const { level, expiresAt } = await nextLine(service, 'tls.reloaded', () => install(renewed))
    assert.equal(level, 'info')
    assert.equal(Math.round((Date.parse(String(expiresAt)) - Date.now()) / 86_400_000), 200)
    assert.equal(await servedAt(url), renewed.fingerprint)
    assert.ok(await isAnswered(open))
    open.destroy()
    for (const options of [
      { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES256-SHA384' },
      { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
    ] as const) {
      await assert.rejects(shakeHands(url, options), /alert/)
    }
    const socket = await shakeHands(url)
    assert.equal(socket.getProtocol(), 'TLSv1.3')
    socket.destroy()
  })

  test('a certificate that is written before its key is served once the key is written', async () => {
    const renewed = await makeCertificate()
    const { level, err } = await nextLine(service, 'tls.reload_failed', () =>
      writeFile(certFile, renewed.cert),
    )
    assert.equal(level, 'error')
    assert.match(err?.message ?? '', /key values mismatch/)
    assert.equal(await servedAt(url), first.fingerprint)
    await nextLine(service, 'tls.reloaded', () => writeFile(keyFile, renewed.key))
    assert.equal(await servedAt(url), renewed.fingerprint)
  })

  const asCertificate = (text: string) => () => writeFile(certFile, text)
  const BROKEN: [what: string, change: () => Promise<unknown>, message: RegExp][] = [
    ['half of a certificate', asCertificate(first.cert.slice(0, first.cert.length / 2)), /PEM/i],
    ['an empty certificate', asCertificate(''), /PEM/i],
    ['an empty key', () => writeFile(keyFile, ''), /PEM|DECODER|no start line/i],
    ['no certificate', () => rm(certFile), /ENOENT/],
    ['a folder in its place', () => rm(certFile).then(() => mkdir(certFile)), /EISDIR/],
    [
      'a key of another type',
      async () => writeFile(keyFile, (await makeCertificate({ keyType: 'rsa' })).key),
      /key values mismatch: \S+key\.pem is not the key of \S+cert\.pem/,
    ],
    [
      'an expired certificate',
      async () => install(await makeCertificate({ fromDays: -9, toDays: -1 })),
      /cert\.pem expired on 2.*Z: renew it/,
    ],
    [
      'a certificate of tomorrow',
      async () => install(await makeCertificate({ fromDays: 1 })),
      /cert\.pem is not valid before 2.*Z: is the clock right\?/,
    ],
  ]
  for (const [what, change, message] of BROKEN) {
    test(`${what} is logged as an error, and the certificate before is still served`, async () => {
      // The files may be read between the writing of the certificate and of its key: that error comes first.
      const changeAndReload = async () => {
        await change()
        service.kill('SIGHUP')
      }
      const { level, msg } = await nextLine(service, 'tls.reload_failed', changeAndReload, message)
      assert.equal(level, 'error')
      assert.match(
        String(msg),
        /^The new certificate cannot be used, the previous one stays in use: /,
      )
      assert.ok(!service.output().includes('PRIVATE KEY'))
      assert.equal(await servedAt(url), first.fingerprint)
    })
  }

  test('SIGHUP reloads unchanged certificates and keys too, and 100 signals do no harm', async () => {
    for (const event of ['tls.reloaded', 'keys.reloaded']) {
      await nextLine(service, event, () => service.kill('SIGHUP'))
    }
    const many = service.lines().length
    for (let i = 0; i < 100; i++) service.kill('SIGHUP')
    await until(async () => service.lines().length > many)
    assert.equal(await servedAt(url), first.fingerprint)
  })
})

test('a certificate behind symbolic links is reloaded when they are swapped, as by Kubernetes and certbot', async () => {
  const volume = join(folder, 'volume')
  // No warning at the start: the certificate is good for more than two weeks.
  await mount(volume, '..1', await makeCertificate({ toDays: 15 }))
  for (const name of ['tls.crt', 'tls.key']) await symlink(`..data/${name}`, join(volume, name))
  const service = runOwned({
    ...production,
    DATA_DIR: volume,
    TLS_CERT_FILE: join(volume, 'tls.crt'),
    TLS_KEY_FILE: join(volume, 'tls.key'),
  })
  const url = String((await service.line('service.started')).address)
  const tlsEvents = () =>
    eventsOf(service.lines()).filter(event => String(event).startsWith('tls.'))
  assert.deepEqual(tlsEvents(), [])
  const renewed = await makeCertificate()
  await nextLine(service, 'tls.reloaded', () => mount(volume, '..2', renewed))
  assert.equal(await servedAt(url), renewed.fingerprint)
  assert.deepEqual(tlsEvents(), ['tls.reloaded'])
})

describe('the validity of the certificate', () => {
  for (const [what, days, message] of [
    ['expired', [-9, -1], /^The TLS certificate cannot be used: \S+ expired on 2.*Z: renew it\n$/],
    ['not valid yet', [1, 9], /^The TLS certificate cannot be used: \S+ is not valid before 2/],
  ] as const) {
    test(`production does not start with a certificate that is ${what}`, async () => {
      await install(await makeCertificate({ fromDays: days[0], toDays: days[1] }))
      const service = runOwned(production)
      assert.deepEqual(await service.exit, { code: 1, signal: null })
      assert.match(service.output().replace(/^\{.*\n/gm, ''), message)
    })
  }

  for (const [toDays, event, level, text] of [
    [13.5, 'tls.expiring', 'warn', /^The certificate expires soon: renew \S+cert\.pem$/],
    [-0.5, 'tls.expired', 'error', /^The certificate has expired: renew \S+cert\.pem$/],
  ] as const) {
    test(`${event} is logged at the start and every day`, async () => {
      await install(await makeCertificate({ fromDays: -9, toDays }))
      // Shortens the daily interval to 50 ms.
      const hurry = `const { setInterval } = globalThis
        globalThis.setInterval = (f, ms, ...rest) => setInterval(f, ms === 86400000 ? 50 : ms, ...rest)`
      const env = { ...production, NODE_ENV: 'development' }
      const service = runOwned(env, { command: [node, ...preload(hurry), ...serve] })
      const line = await service.line(event)
      assert.deepEqual([line.level, line.daysLeft], [level, Math.floor(toDays)])
      assert.match(String(line.msg), text)
      await until(async () => eventsOf(service.lines()).filter(each => each === event).length > 2)
    })
  }
})

describe('mounted as by Kubernetes', async () => {
  const MANIFEST = readFileSync(join(PROJECT, 'deploy/kubernetes.yaml'), 'utf8')
  const MOUNTED_MODE = Number.parseInt(/defaultMode: (\d+)/.exec(MANIFEST)?.[1] ?? '', 8)
  const IS_ROOT = process.getuid?.() === 0
  /** Only root can give files to another user than the one that runs the service. */
  const identity = IS_ROOT ? UNPRIVILEGED : {}
  const DOCTOR = [node, ...serve.slice(0, -1), 'doctor', '--json']

  const volume = await ownFolder('login-mounted-')
  const mounted = (name: string) => join(volume, 'mounted', name)
  const target = (name: string) => join(volume, 'mounted', '..2030_01_31', name)

  await mount(join(volume, 'mounted'), '..2030_01_31', await makeCertificate())
  await ensureKeyFile(target('signing-keys.json'), new Date())
  for (const name of ['signing-keys.json', 'tls.crt', 'tls.key']) {
    await symlink(join('..data', name), mounted(name))
    if (IS_ROOT) await chown(target(name), 0, UNPRIVILEGED.gid)
    await chmod(target(name), MOUNTED_MODE)
  }
  await mkdir(join(volume, 'data'))
  if (IS_ROOT) await chown(join(volume, 'data'), UNPRIVILEGED.uid, UNPRIVILEGED.gid)
  await chmod(volume, 0o755)
  const env = {
    ...production,
    // The name in the certificate.
    JWT_ISSUER: 'https://localhost',
    DATA_DIR: join(volume, 'data'),
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
    const DATA_DIR = join(volume, 'of-root')
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
})
