import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Failure } from './failures.ts'
import { withFileLock } from './file-lock.ts'

const LONG_MS = 60_000
const folder = await mkdtemp(join(tmpdir(), 'login-lock-'))
after(() => rm(folder, { recursive: true }))

test('a link is refused, so that its target is not created', async () => {
  const [link, target] = [newFile(), newFile()]
  await symlink(target, link)
  await assert.rejects(
    withFileLock(link, 0, async () => {}),
    /is a link: remove it/,
  )
  await assert.rejects(stat(target), { code: 'ENOENT' })
})

let files = 0
const newFile = () => join(folder, `${++files}.lock`)

/** Starts a process that takes the lock, prints a line and keeps the lock. */
async function startHolder(file: string) {
  const module = new URL('./file-lock.ts', import.meta.url)
  const holder = spawn(process.execPath, [
    '--input-type=module',
    '--eval',
    `import { withFileLock } from '${module}'
     await withFileLock('${file}', ${LONG_MS}, async () => {
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
  const most = await Promise.all(
    Array.from({ length: 20 }, () =>
      withFileLock(file, LONG_MS, async () => {
        const now = ++inside
        await new Promise(resolve => setImmediate(resolve))
        inside--
        return now
      }),
    ),
  )
  assert.deepEqual(most, Array(20).fill(1))
  assert.equal((await stat(file)).size, 0)
})

test('an operation that fails releases the lock', async () => {
  const file = newFile()
  await assert.rejects(
    withFileLock(file, LONG_MS, async () => {
      throw new TypeError('failed')
    }),
    TypeError,
  )
  assert.equal(await withFileLock(file, LONG_MS, async () => 'free'), 'free')
})

test('a running holder is waited for until the time limit; a killed holder releases the lock', async () => {
  const file = newFile()
  const holder = await startHolder(file)
  await assert.rejects(
    withFileLock(file, 100, async () => assert.fail('two holders')),
    (error: Error) => {
      assert.ok(error instanceof Failure)
      assert.match(error.message, /^Another process has held the lock .* for 0\.1 seconds\. Wait/)
      return true
    },
  )
  const waiting = withFileLock(file, LONG_MS, async () => 'taken')
  holder.kill('SIGKILL')
  assert.equal(await waiting, 'taken')
})

test('the error says why a lock cannot be taken', async () => {
  const garbage = newFile()
  await writeFile(garbage, 'x'.repeat(4096))
  for (const file of [join(folder, 'missing', 'lock'), folder, garbage]) {
    await assert.rejects(
      withFileLock(file, LONG_MS, async () => assert.fail('taken')),
      (error: Error) =>
        error instanceof Failure && error.message.startsWith(`The lock ${file} cannot be`),
    )
  }
})
