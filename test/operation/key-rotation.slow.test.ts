// "keys rotate" by several processes at once, while a service reads the file, and with a copy of the file elsewhere.
import assert from 'node:assert/strict'
import { copyFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { loadKeySet } from '../../src/keys/key-file.ts'
import { type Cli, createCli } from '../support/cli.ts'
import { createTestDatabase } from '../support/engines.ts'
import { scrape } from '../support/metrics.ts'
import { freePort } from '../support/postgres-server.ts'
import { createDeployment, until } from '../support/process.ts'
import { PASSWORD, startTestService } from '../support/service.ts'

const AT_ONCE = 5
const JWKS = '/.well-known/jwks.json'
const MINUTE_MS = 60_000

async function createCliFor(t: TestContext): Promise<Cli> {
  const database = await createTestDatabase('sqlite')
  const cli = await createCli(database)
  t.after(async () => {
    await cli.remove()
    await database.drop()
  })
  return cli
}

/** How many processes logged each event. */
async function rotateAtOnce(cli: Cli): Promise<Record<string, number>> {
  const ended = await Promise.all(
    Array.from({ length: AT_ONCE }, () => cli.runProcess(['keys', 'rotate'])),
  )
  const events: Record<string, number> = {}
  for (const { code, stderr } of ended) {
    assert.equal(code, 0, stderr)
    const { event } = JSON.parse(stderr)
    events[event] = (events[event] ?? 0) + 1
  }
  return events
}

const generationsIn = async (path: string) => {
  const { accessKeys, refreshKeys } = await loadKeySet(path)
  assert.equal(accessKeys.length, refreshKeys.length)
  return accessKeys.length
}

test('five processes that rotate at once add five generations, also to no file', async t => {
  const cli = await createCliFor(t)
  const path = join(cli.dataDir, 'signing-keys.json')
  assert.deepEqual(await rotateAtOnce(cli), {
    'admin.keys_created': 1,
    'admin.keys_rotated': AT_ONCE - 1,
  })
  assert.equal(await generationsIn(path), AT_ONCE)
  assert.deepEqual(await rotateAtOnce(cli), { 'admin.keys_rotated': AT_ONCE })
  assert.equal(await generationsIn(path), 2 * AT_ONCE)
  assert.deepEqual(await readdir(cli.dataDir), ['signing-keys.json', 'signing-keys.json.lock'])
})

test('a running service publishes every new key, and its tokens stay valid', async t => {
  const deployment = await createDeployment('sqlite')
  t.after(() => deployment.remove())
  await deployment.addUser('kate@example.com')
  const service = await deployment.start()
  const cli = await createCli(deployment.database)
  t.after(cli.remove)
  const { accessToken } = (await service.login('kate@example.com', PASSWORD)).json.data
  const status = async () => {
    const headers = { Authorization: `Bearer ${accessToken}` }
    return (await service.call({ method: 'GET', path: '/api/v1/auth/session', headers })).status
  }

  const rotating = rotateAtOnce(cli)
  let isDone = false
  rotating.finally(() => {
    isDone = true
  })
  while (!isDone) assert.equal(await status(), 200)
  assert.deepEqual(await rotating, { 'admin.keys_rotated': AT_ONCE })
  await until(async () => {
    const { json } = await service.call({ method: 'GET', path: JWKS })
    return json.keys.length === 1 + AT_ONCE
  })
  assert.equal(await status(), 200)
  const failed = service.lines().filter(({ event }) => event === 'keys.reload_failed')
  assert.deepEqual(failed, [])
})

test('a machine that gets the new keys within an hour accepts every token, and the metrics tell that it lacks them', async t => {
  const ports = [await freePort(), await freePort()]
  const [OPS_PORT = '', otherPort = ''] = ports.map(String)
  const first = await startTestService('sqlite', { OPS_PORT })
  const file = join(first.dataDir, 'signing-keys.json')
  const copy = join(first.dataDir, 'copied-keys.json')
  await copyFile(file, copy)
  const env = { OPS_PORT: otherPort, SIGNING_KEYS_FILE: copy }
  const second = await startTestService('sqlite', env, first)
  const cli = await createCli(first.database)
  t.after(async () => {
    await cli.remove()
    await second.stop()
    await first.stop()
  })
  const email = await first.newUser()
  const statusAtSecond = async () => {
    const { accessToken } = (await first.login(email, PASSWORD)).json.data
    const headers = { Authorization: `Bearer ${accessToken}` }
    return (await second.call({ method: 'GET', path: '/api/v1/auth/session', headers })).status
  }
  const haveSameKeys = async () => {
    const [one, other] = await Promise.all(ports.map(scrape))
    return one?.get('signing_keys_hash') === other?.get('signing_keys_hash')
  }
  const rotate = async (...options: string[]) => {
    assert.ok(await haveSameKeys())
    await cli.run(['keys', 'rotate', ...options], '', { SIGNING_KEYS_FILE: file })
    await until(async () => !(await haveSameKeys()))
  }
  const copyKeys = async () => {
    await copyFile(file, copy)
    await until(haveSameKeys)
  }

  await rotate('--now')
  assert.equal(await statusAtSecond(), 401)
  await copyKeys()
  assert.equal(await statusAtSecond(), 200)

  await rotate()
  for (const { advance } of [first, second]) advance(59 * MINUTE_MS)
  assert.equal(await statusAtSecond(), 200)
  await copyKeys()
  for (const { advance } of [first, second]) advance(2 * MINUTE_MS)
  assert.equal(await statusAtSecond(), 200)
})
