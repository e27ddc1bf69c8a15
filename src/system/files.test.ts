import assert from 'node:assert/strict'
import { chown, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { ownFolder } from '../../test/support/own.ts'
import { replaceFile, writeTemporaryFile } from './files.ts'

const folder = await ownFolder('login-files-')

test('a file is created or replaced as a whole, with its mode', async () => {
  const path = join(folder, 'secret')
  for (const text of ['first', 'second']) {
    await replaceFile(path, text, 0o600)
    assert.equal(await readFile(path, 'utf8'), text)
    assert.equal((await stat(path)).mode & 0o777, 0o600)
  }
  assert.deepEqual(await readdir(folder), ['secret'])
})

test('root replaces a file for its owner and its group, which may still read it', {
  skip: process.getuid?.() !== 0 && 'only root can give files away',
}, async () => {
  const path = join(folder, 'shared')
  await writeFile(path, 'first', { mode: 0o640 })
  await chown(path, 1, 2)
  await replaceFile(path, 'second', 0o600)
  const { uid, gid, mode } = await stat(path)
  assert.deepEqual([uid, gid, mode & 0o777], [1, 2, 0o640])
})

test('a replacement that fails leaves no temporary file', async () => {
  const path = join(folder, 'taken')
  await mkdir(join(path, 'by a folder'), { recursive: true })
  await assert.rejects(replaceFile(path, 'canary', 0o600))
  // A value that is no text fails in the middle of writing.
  await assert.rejects(writeTemporaryFile(path, Object(Symbol('canary')), 0o600))
  const left = (await readdir(folder)).filter(name => name.endsWith('.tmp'))
  assert.deepEqual(left, [])
})
