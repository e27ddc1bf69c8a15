import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, mock, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { insertTestUser, makeScopes } from '../../../test/storage/fixtures.ts'
import { openTestStore } from '../../../test/support/engines.ts'
import { inParallel } from '../../../test/support/own.ts'
import {
  endOneCommit,
  releaseDisk,
  stallDisk,
  waitForCommit,
  withSlowDisk,
} from '../../../test/support/slow-disk.ts'
import { openInThread } from './thread.ts'

const NOW = new Date()
const EMAIL = 'kate@example.com'

const { store: direct, database } = await openTestStore('sqlite')
if (database.config.engine !== 'sqlite') throw new Error('not SQLite')
const { file } = database.config
await insertTestUser(direct, EMAIL, NOW)

async function open() {
  const lost: Error[] = []
  const store = openInThread(file, error => lost.push(error))
  after(store.close)
  // Has no time limit: on a busy machine a thread takes long to start.
  await store.migrations.apply()
  return { store, lost }
}

test('values arrive as they are: dates, null and objects', async () => {
  const { store } = await open()
  const { users } = await store.users.list({}, { after: '', limit: 1 }, NOW)
  const found = await direct.users.findByEmail(EMAIL)
  assert.deepEqual(users, [{ ...found, lastLoginAt: null, secondFactor: 'none' }])
  assert.equal(await store.maintenance.readClock(), null)
  assert.equal(await store.devices.find('unknown', NOW), null)
})

test('an error keeps its message and codes', async () => {
  const { store } = await open()
  const scopes = makeScopes().map(scope => ({ ...scope, key: `too short: ${scope.name}` }))
  await assert.rejects(store.attempts.reserve(scopes, EMAIL, NOW), {
    name: 'Error',
    message: 'CHECK constraint failed: length(key) = 64',
    code: 'ERR_SQLITE_ERROR',
    errcode: 275,
  })
})

test('operations in progress end before the store closes, and later ones are refused', async () => {
  const { store } = await open()
  const reserving = inParallel(100, () => store.attempts.reserve(makeScopes(), EMAIL, NOW))
  await store.close()
  for (const { kind } of await reserving) assert.equal(kind, 'admitted')
  await assert.rejects(store.attempts.reserve(makeScopes(), EMAIL, NOW), /has been closed/)
})

test('when the thread dies, its operations fail; the next one starts another thread', async () => {
  const { store, lost } = await open()
  const posted = mock.method(Worker.prototype, 'postMessage')
  const purging = store.maintenance.purge(NOW)
  const reserving = store.attempts.reserve(makeScopes(), EMAIL, NOW)
  const [thread] = posted.mock.calls.map(call => call.this)
  posted.mock.restore()
  assert.ok(thread instanceof Worker)
  void thread.terminate()
  for (const operation of [purging, reserving]) {
    await assert.rejects(operation, /the database thread ended/)
  }
  assert.deepEqual(await store.migrations.apply(), [])
  assert.equal((await store.attempts.reserve(makeScopes(), EMAIL, NOW)).kind, 'admitted')
  assert.equal(lost.length, 1)
})

test('an argument that cannot be sent fails its own operation only', async () => {
  const { store } = await open()
  const symbol = Object(Symbol(randomUUID()))
  await assert.rejects(store.sessions.findLive(symbol, NOW), /could not be cloned/)
  assert.equal((await store.sessions.findLive(randomUUID(), NOW)).kind, 'invalid')
})

test('an operation whose time ends while it waits for the commit of another takes no effect', async () => {
  const disk = `${file}.slow`
  const hook = withSlowDisk(disk)
  Object.assign(process.env, hook)
  const { store } = await open()
  for (const name of Object.keys(hook)) delete process.env[name]

  await stallDisk(disk)
  // Its commit blocks the thread while both others arrive. Then the commit of the last one blocks.
  const first = store.maintenance.checkWritable(NOW).catch(() => {})
  await waitForCommit(disk)
  const scopes = makeScopes()
  const reserving = store.attempts.reserve(scopes, EMAIL, NOW)
  const last = store.maintenance.checkWritable(NOW).catch(() => {})
  const rejected = assert.rejects(reserving, /did not answer in time/)
  await endOneCommit(disk)
  await Promise.all([first, rejected, last])
  await releaseDisk(disk)
  await store.migrations.apply()
  assert.ok((await direct.throttle.read(scopes, NOW)).every(({ pending }) => pending === 0))
})

test('the operations that wait for the thread are limited', async () => {
  const { store } = await open()
  const reading = Array.from({ length: 10_000 }, () => store.maintenance.readClock())
  await assert.rejects(store.maintenance.readClock(), /did not answer in time/)
  await Promise.allSettled(reading)
  assert.equal(await store.maintenance.readClock(), null)
})
