import assert from 'node:assert/strict'
import { randomUUID, X509Certificate } from 'node:crypto'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { createSecureContext } from 'node:tls'
import { inParallel, ownFolder } from '../../../test/support/own.ts'
import { loadConfig } from '../../config/config.ts'
import { daysLeft, loadTls, type TlsMaterial } from './tls.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const NAMES = ['development-cert.pem', 'development-key.pem']
const inDays = (days: number) => new Date(NOW.getTime() + days * 86_400_000)

const folder = await ownFolder()
const newDataDir = () => join(folder, randomUUID())

async function load(env: Record<string, string>, now = NOW): Promise<TlsMaterial> {
  const tls = await loadTls(loadConfig(env), now)
  assert.ok(tls)
  return tls
}

describe('the development certificate', () => {
  test('is valid for this host, as a server, for a year, and only its owner can read its key', async () => {
    const dataDir = newDataDir()
    const certificate = new X509Certificate((await load({ DATA_DIR: dataDir })).cert)
    assert.equal(certificate.checkHost('localhost'), 'localhost')
    for (const address of ['127.0.0.1', '::1']) assert.equal(certificate.checkIP(address), address)
    assert.equal(certificate.checkHost('example.com'), undefined)
    assert.equal(certificate.checkIP('127.0.0.2'), undefined)
    assert.equal(certificate.ca, false)
    assert.deepEqual(certificate.keyUsage, ['1.3.6.1.5.5.7.3.1'])
    assert.equal(certificate.publicKey.asymmetricKeyType, 'ec')
    assert.ok(certificate.validFromDate < NOW)
    assert.equal(Math.round(daysLeft(certificate.toString(), NOW)), 365)
    assert.equal((await stat(join(dataDir, 'development-key.pem'))).mode & 0o777, 0o600)
    assert.deepEqual((await readdir(dataDir)).toSorted(), NAMES)
  })

  test('stays the same at every start until a month before it expires', async () => {
    const env = { DATA_DIR: newDataDir() }
    const first = await load(env)
    assert.deepEqual(await load(env), first)
    assert.deepEqual(await load(env, inDays(334)), first)
    const renewed = await load(env, inDays(336))
    assert.notEqual(renewed.cert, first.cert)
    assert.notEqual(renewed.key, first.key)
    assert.equal(Math.round(daysLeft(renewed.cert, inDays(336))), 365)
    assert.deepEqual(await load(env, inDays(336)), renewed)
  })

  for (const file of NAMES) {
    test(`is made again when ${file} is damaged or lost`, async () => {
      const dataDir = newDataDir()
      const path = join(dataDir, file)
      const certificates = new Set([(await load({ DATA_DIR: dataDir })).cert])
      for (const end of [() => writeFile(path, 'x'), () => rm(path)]) {
        await end()
        const made = await load({ DATA_DIR: dataDir })
        createSecureContext(made)
        assert.equal(await readFile(join(dataDir, 'development-cert.pem'), 'utf8'), made.cert)
        certificates.add(made.cert)
      }
      assert.equal(certificates.size, 3)
    })
  }

  test('can be loaded several times at once', async () => {
    const env = { DATA_DIR: newDataDir() }
    for (const material of await inParallel(5, () => load(env))) createSecureContext(material)
  })
})

describe("the operator's certificate", async () => {
  const [one, other] = [newDataDir(), newDataDir()]
  const material = await load({ DATA_DIR: one })
  await load({ DATA_DIR: other })
  const files = {
    TLS_CERT_FILE: join(one, 'development-cert.pem'),
    TLS_KEY_FILE: join(one, 'development-key.pem'),
  }

  test('is read from its files, and nothing is made', async () => {
    const DATA_DIR = newDataDir()
    assert.deepEqual(await load({ ...files, DATA_DIR }), material)
    assert.deepEqual(await load({ ...files, DATA_DIR, TRUST_PROXY: '10.0.0.0/8' }), material)
    // In development even after it has expired; doctor reports it.
    assert.deepEqual(await load({ ...files, DATA_DIR }, inDays(1_000)), material)
    // Behind a proxy none is needed.
    assert.equal(await loadTls(loadConfig({ DATA_DIR, TRUST_PROXY: '10.0.0.0/8' }), NOW), null)
    await assert.rejects(stat(DATA_DIR), { code: 'ENOENT' })
  })

  const REFUSED: [why: string, change: Record<string, string>, message: RegExp][] = [
    ['a missing file', { TLS_CERT_FILE: join(folder, 'none.pem') }, /ENOENT.*none\.pem/],
    ['another key', { TLS_KEY_FILE: join(other, 'development-key.pem') }, /mismatch/],
    ['a key that is a certificate', { TLS_KEY_FILE: files.TLS_CERT_FILE }, /\S/],
  ]
  for (const [why, change, message] of REFUSED) {
    test(`is refused for ${why}; the message contains nothing of the key`, async () => {
      const error: unknown = await load({ ...files, ...change }).catch(error => error)
      assert.ok(error instanceof Error && message.test(error.message))
      const lines = material.key.split('\n').filter(line => line !== '')
      assert.ok(!lines.some(line => error.message.includes(line)))
    })
  }
})
