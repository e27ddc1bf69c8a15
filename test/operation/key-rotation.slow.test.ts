// "keys rotate" by several processes at once, while a service reads the file, and with a copy of the file elsewhere.
import assert from 'node:assert/strict'
import { copyFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { loadKeySet } from '../../src/keys/key-file.ts'
import { createCli } from '../support/cli.ts'
import { scrape } from '../support/metrics.ts'
import { inParallel, own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { createDeployment, until } from '../support/process.ts'
import { PASSWORD, startTestService } from '../support/service.ts'
import { bearer } from '../support/session-client.ts'

const AT_ONCE = 5
const MINUTE_MS = 60_000
const SESSION = { method: 'GET', path: '/api/v1/auth/session' }

test('processes that rotate at once each add a generation, also to no file, and together one key that encrypts; a service publishes every key, and its tokens stay valid', async () => {
  const deployment = await own(createDeployment('sqlite'))
  const cli = await own(createCli(deployment.database))
  const path = join(cli.dataDir, 'signing-keys.json')
  const rotateAtOnce = async () => {
    const ended = await inParallel(AT_ONCE, () => cli.runProcess(['keys', 'rotate']))
    return ended.map(({ stderr }) => JSON.parse(stderr).event).toSorted()
  }
  const rotated = Array.from({ length: AT_ONCE }, () => 'admin.keys_rotated')
  assert.deepEqual(await rotateAtOnce(), ['admin.keys_created', ...rotated.slice(1)])
  const { accessKeys, refreshKeys, encryptionKeys } = await loadKeySet(path)
  const counts = [accessKeys, refreshKeys, encryptionKeys].map(keys => keys.length)
  assert.deepEqual(counts, [AT_ONCE, AT_ONCE, 1])
  const files = (await readdir(cli.dataDir)).filter(name => name.startsWith('signing-keys'))
  assert.deepEqual(files, ['signing-keys.json', 'signing-keys.json.lock'])

  await deployment.addUser('kate@example.com')
  const service = await deployment.start()
  const { accessToken } = (await service.login('kate@example.com', PASSWORD)).json.data
  const status = async () =>
    (await service.call({ ...SESSION, headers: bearer(accessToken) })).status
  let isDone = false
  const rotating = rotateAtOnce().finally(() => {
    isDone = true
  })
  while (!isDone) assert.equal(await status(), 200)
  assert.deepEqual(await rotating, rotated)
  await until(async () => {
    const { json } = await service.call({ method: 'GET', path: '/.well-known/jwks.json' })
    return json.keys.length === 2 * AT_ONCE
  })
  assert.equal(await status(), 200)
  assert.ok(!service.lines().some(({ event }) => event === 'keys.reload_failed'))
})

test('a machine that gets the new keys within an hour accepts every token, and the metrics tell that it lacks them', async () => {
  const ports = [await freePort(), await freePort()]
  const [OPS_PORT = '', otherPort = ''] = ports.map(String)
  const first = await startTestService('sqlite', { OPS_PORT })
  const file = join(first.dataDir, 'signing-keys.json')
  const copy = join(first.dataDir, 'copied-keys.json')
  await copyFile(file, copy)
  const env = { OPS_PORT: otherPort, SIGNING_KEYS_FILE: copy }
  const second = await own(startTestService('sqlite', env, first))
  after(first.stop)
  const cli = await own(createCli(first.database))
  const email = await first.newUser()
  const statusAtSecond = async () => {
    const { accessToken } = (await first.login(email, PASSWORD)).json.data
    return (await second.call({ ...SESSION, headers: bearer(accessToken) })).status
  }
  const haveSameKeys = async () => {
    const [one, other] = await Promise.all(ports.map(port => scrape(port)))
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
  const advance = (minutes: number) => {
    for (const service of [first, second]) service.advance(minutes * MINUTE_MS)
  }

  await rotate('--now')
  assert.equal(await statusAtSecond(), 401)
  await copyKeys()
  assert.equal(await statusAtSecond(), 200)

  await rotate()
  advance(59)
  assert.equal(await statusAtSecond(), 200)
  await copyKeys()
  advance(2)
  assert.equal(await statusAtSecond(), 200)
})
