import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { inParallel, ownFolder } from '../../test/support/own.ts'
import { Failure } from '../system/failures.ts'
import { withChangeLock } from './file-lock.ts'

const LONG_MS = 60_000
const folder = await ownFolder('login-lock-')
let files = 0
const newFile = () => join(folder, `${++files}`)

test('a link is refused, so that its target is not created', async () => {
  const [link, target] = [newFile(), newFile()]
  await symlink(target, `${link}.lock`)
  await assert.rejects(
    withChangeLock(link, async () => {}, 0),
    /is a link: remove it/,
  )
  await assert.rejects(stat(target), { code: 'ENOENT' })
})

/** Starts a process that takes the lock, prints a line and keeps the lock. */
async function startHolder(file: string) {
  const module = new URL('./file-lock.ts', import.meta.url)
  const holder = spawn(process.execPath, [
    '--input-type=module',
    '--eval',
    `import { withChangeLock } from '${module}'
     await withChangeLock('${file}', async () => {
       console.log('held')
       await new Promise(resolve => setTimeout(resolve, ${LONG_MS}))
     })`,
  ])
  await once(holder.stdout, 'data')
  return holder
}

test('one operation runs at a time, within one process too', async () => {
  const file = newFile()
  let inside = 0
  const most = await inParallel(20, () =>
    withChangeLock(file, async () => {
      const now = ++inside
      await setImmediate()
      inside--
      return now
    }),
  )
  assert.deepEqual(most, Array(20).fill(1))
  assert.equal((await stat(`${file}.lock`)).size, 0)
})

test('an operation that fails releases the lock', async () => {
  const file = newFile()
  await assert.rejects(
    withChangeLock(file, () => Promise.reject(new TypeError('failed'))),
    TypeError,
  )
  assert.equal(await withChangeLock(file, async () => 'free'), 'free')
})

test('a running holder is waited for until the time limit; a killed holder releases the lock', async () => {
  const file = newFile()
  const holder = await startHolder(file)
  await assert.rejects(
    withChangeLock(file, async () => assert.fail('two holders'), 100),
    (error: Error) =>
      error instanceof Failure &&
      /^Another process has held the lock .* for 0\.1 seconds\. Wait/.test(error.message),
  )
  const waiting = withChangeLock(file, async () => 'taken')
  holder.kill('SIGKILL')
  assert.equal(await waiting, 'taken')
})

test('the error says why a lock cannot be taken', async () => {
  const [garbage, blocked] = [newFile(), newFile()]
  await writeFile(`${garbage}.lock`, 'x'.repeat(4096))
  await mkdir(`${blocked}.lock`)
  for (const file of [join(folder, 'missing', 'file'), blocked, garbage]) {
    await assert.rejects(
      withChangeLock(file, async () => assert.fail('taken')),
      (error: Error) =>
        error instanceof Failure && error.message.startsWith(`The lock ${file}.lock cannot be`),
    )
  }
})
