import assert from 'node:assert/strict'
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { chmod, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { inParallel, ownFolder } from '../../test/support/own.ts'
import { until } from '../../test/support/process.ts'
import { findExposure } from '../system/files.ts'
import { ensureKeyFile, loadKeySet, readKeyFile, replaceKeyFile, watchKeys } from './key-file.ts'
import { allKeysOf, KeyFileError, type KeySet } from './key-set.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const folder = await ownFolder('login-keys-')
const newPath = () => join(folder, randomUUID(), 'signing-keys.json')
const filesBeside = (path: string) => readdir(dirname(path))
const modeOf = async (path: string) => (await stat(path)).mode & 0o777

async function newFile(): Promise<string> {
  const path = newPath()
  await ensureKeyFile(path, NOW)
  return path
}

describe('creating the key file', () => {
  test('creates folder and file, readable by the owner only, with usable keys', async () => {
    const path = newPath()
    const umask = process.umask(0)
    let made: KeySet | null
    try {
      made = await ensureKeyFile(path, NOW)
    } finally {
      process.umask(umask)
    }
    assert.equal(await modeOf(path), 0o600)
    assert.equal(await findExposure(path), null)
    const keySet = await loadKeySet(path)
    const idsOf = (keys: { keyId: string }[]) => keys.map(({ keyId }) => keyId)
    assert.deepEqual(made && idsOf(allKeysOf(made)), idsOf(allKeysOf(keySet)))
    const { accessKeys, refreshKeys, encryptionKeys } = keySet
    assert.deepEqual(
      [accessKeys, refreshKeys, encryptionKeys].map(keys => keys.length),
      [1, 1, 1],
    )
    for (const { usedFrom } of allKeysOf(keySet)) assert.equal(usedFrom, NOW.getTime() / 1000)
  })

  test('does not change an existing file, even a broken one', async () => {
    const path = await newFile()
    await writeFile(path, 'broken')
    assert.equal(await ensureKeyFile(path, NOW), null)
    assert.equal(await readFile(path, 'utf8'), 'broken')
  })

  test('creates one file for ten parallel callers, and leaves no temporary file', async () => {
    const path = newPath()
    const made = await inParallel(10, () => ensureKeyFile(path, NOW))
    assert.equal(made.filter(Boolean).length, 1)
    assert.deepEqual(await filesBeside(path), ['signing-keys.json'])
    await loadKeySet(path)
  })

  test('others must not read it, nor anybody but its owner write to it', async () => {
    const path = await newFile()
    const exposed: string[] = []
    for (const mode of ['600', '400', '440', '640', '660', '604', '641', '620']) {
      await chmod(path, mode)
      if (await findExposure(path)) exposed.push(mode)
    }
    assert.deepEqual(exposed, ['660', '604', '641', '620'])
  })
})

test('replacing the key file refuses unusable keys and keeps the old file', async () => {
  const path = await newFile()
  const kept = await readFile(path, 'utf8')
  await assert.rejects(replaceKeyFile(path, { keys: [] }), KeyFileError)
  assert.equal(await readFile(path, 'utf8'), kept)
  assert.deepEqual(await filesBeside(path), ['signing-keys.json'])
})

describe('watching the key file', { concurrency: true }, () => {
  const BROKEN: [what: string, change: (path: string) => Promise<void>, message: RegExp][] = [
    ['a broken file', path => writeFile(path, '{"keys": [{"k": "canary"'), /^it is not JSON$/],
    ['an empty file', path => writeFile(path, ''), /^it is not JSON$/],
    ['a set without keys', path => writeFile(path, '{"keys":[]}'), /no private key/],
    ['a missing file', path => rm(path), /ENOENT/],
  ]
  for (const [what, change, message] of BROKEN) {
    test(`reports ${what} and keeps the old keys`, async t => {
      const path = await newFile()
      const kept = await readKeyFile(path)
      const errors: (Error | null)[] = []
      const keys = await watchKeys(path, false, error => errors.push(error))
      t.after(keys.close)
      await change(path)
      await keys.reload()
      assert.match(errors[0]?.message ?? '', message)
      assert.deepEqual(
        keys.publicJwks().keys.map(key => key.kid),
        [kept.keys[0]?.kid],
      )
      assert.equal(keys.signingAt(NOW).refreshKey.keyId, kept.keys[1]?.kid)
    })
  }

  test('reloads if only the owner or mode changes, because the file may have become readable', async () => {
    const path = await newFile()
    const reloads: (Error | null)[] = []
    const keys = await watchKeys(path, false, error => reloads.push(error))
    await chmod(path, 0o400)
    // The file is polled every two seconds.
    await until(async () => reloads.length > 0)
    assert.equal(reloads[0], null)
    keys.close()
  })

  test('fails to start with an unusable file, and does not keep the process running', async () => {
    await assert.rejects(
      watchKeys(newPath(), false, () => {}),
      { code: 'ENOENT' },
    )
  })
})

describe('an RSA key of 2048 bits', () => {
  const shortKey = () => ({
    ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }),
    kid: randomUUID(),
  })
  const addKey = async (path: string) => {
    const { keys } = JSON.parse(await readFile(path, 'utf8'))
    await writeFile(path, JSON.stringify({ keys: [shortKey(), ...keys] }))
  }
  const refusal = /^the RSA key \S+ has 2048 bits; a new one needs 3072$/

  test('is refused in a new file', async () => {
    const path = await newFile()
    await addKey(path)
    await assert.rejects(
      watchKeys(path, false, () => {}),
      { message: refusal },
    )
  })

  test('stays valid in a file in use, but no other one is accepted there', async t => {
    const path = await newFile()
    await addKey(path)
    const errors: (Error | null)[] = []
    const keys = await watchKeys(path, true, error => errors.push(error))
    t.after(() => keys.close())
    await keys.reload()
    await addKey(path)
    await keys.reload()
    assert.equal(errors[0], null)
    assert.match(errors[1]?.message ?? '', refusal)
    assert.equal(keys.publicJwks().keys.length, 2)
  })
})
