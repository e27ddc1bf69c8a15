// How much a caller can write into the log, and what happens while the log is not read.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { freePort } from './postgres-server.ts'
import { BASE_ENV, createDeployment, type Line, SERVE, until } from './process.ts'
import {
  createClient,
  loggedBy,
  PASSWORD,
  startTestService,
  type TestService,
  UNLIMITED,
} from './service.ts'

/** Escaped, both exceed the 512 characters to which a logged text is cut. */
const EMAIL = '\u0001'.repeat(300)
const USER_AGENT = '\u0080'.repeat(300)
const headers = { 'User-Agent': USER_AGENT }

const countOf = (lines: Record<string, unknown>[], event: string) =>
  lines.filter(line => line.event === event).reduce((sum, { count }) => sum + Number(count ?? 1), 0)

describe('what a blocked caller writes into the log', () => {
  let service: TestService
  before(async () => {
    service = await startTestService('sqlite')
  })
  after(() => service.stop())

  test('is one line, then counts: less than 100 bytes per attempt', async context => {
    const ATTEMPTS = 500
    const sizeBefore = service.logText().length
    const attempt = () => service.call({ body: { email: EMAIL, password: 'x' }, headers })
    const lines = await loggedBy(service, async () => {
      for (let i = 0; i < ATTEMPTS; i++) await attempt()
      await until(async () => countOf(service.logged(), 'login.throttled') === ATTEMPTS - 5)
    })
    const bytes = (service.logText().length - sizeBefore) / ATTEMPTS
    context.diagnostic(`${bytes.toFixed(0)} bytes for each attempt`)
    assert.equal(lines.filter(({ event }) => event === 'login.failed').length, 5)
    const throttled = lines.filter(({ event }) => event === 'login.throttled')
    assert.equal(countOf(throttled, 'login.throttled'), ATTEMPTS - 5)
    assert.deepEqual(
      throttled.map(line => typeof line.email),
      ['string', ...throttled.slice(1).map(() => 'undefined')],
    )
    assert.ok(bytes < 100, `${bytes} bytes for each attempt`)
  })

  test('names each of eight blocked emails once', async () => {
    const from = '127.0.0.5'
    for (let i = 0; i < 50; i++) await service.login(`spent${i}@example.com`, 'x', from)
    const emails = Array.from({ length: 8 }, (_, i) => `tried${i}@example.com`)
    const lines = await loggedBy(service, async () => {
      for (const email of [...emails, ...emails]) await service.login(email, 'x', from)
    })
    const named = lines.flatMap(({ event, email }) => (event === 'login.throttled' ? [email] : []))
    assert.deepEqual(
      named.filter(email => email !== undefined),
      emails,
    )
  })
})

test('failures after a hash are logged one by one', async context => {
  const service = await startTestService('sqlite', UNLIMITED)
  context.after(() => service.stop())
  const lines = await loggedBy(service, async () => {
    for (let i = 0; i < 50; i++) await service.login('kate@example.com', 'wrong')
  })
  assert.deepEqual(
    lines.map(({ event, email }) => [event, email]),
    Array(50).fill(['login.failed', 'kate@example.com']),
  )
})

test('the counts of the last second are logged before the process ends', async context => {
  const deployment = await createDeployment('sqlite')
  context.after(() => deployment.remove())
  const service = await deployment.start()
  for (let i = 0; i < 20; i++) await service.login('kate@example.com', 'wrong')
  service.kill('SIGTERM')
  assert.deepEqual(await service.exit, { code: 0, signal: null })
  assert.equal(countOf(service.lines(), 'login.throttled'), 15)
})

test('while the log is not read, lines are dropped and counted, logins are answered, and memory is bounded', async context => {
  const FAILURES = 1_300
  const deployment = await createDeployment('sqlite', UNLIMITED)
  await deployment.addUser('kate@example.com')
  const [PORT, OPS_PORT] = [String(await freePort()), String(await freePort())]
  const env = { ...BASE_ENV, ...deployment.env, PORT, OPS_PORT }
  const [file = '', ...args] = SERVE
  // The output is not read until the logins have been answered.
  const service = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  context.after(async () => {
    service.kill('SIGKILL')
    await deployment.remove()
  })
  const readiness = () => fetch(`http://127.0.0.1:${OPS_PORT}/readyz`).catch(() => null)
  await until(async () => (await readiness())?.status === 200)
  const client = await createClient(`https://127.0.0.1:${PORT}`, deployment.dataDir)
  let left = FAILURES
  const fail = async () => {
    while (left-- > 0) {
      const { status } = await client.call({ body: { email: EMAIL, password: 'x' }, headers })
      assert.equal(status, 401)
    }
  }
  await Promise.all(Array.from({ length: 8 }, fail))
  const body = { email: 'kate@example.com', password: PASSWORD }
  assert.equal((await client.call({ body })).status, 200)
  client.close()

  const lines: Line[] = []
  let bytes = 0
  createInterface({ input: service.stdout }).on('line', text => {
    bytes += text.length + 1
    lines.push(JSON.parse(text))
  })
  await until(async () => lines.some(({ event }) => event === 'log.lines_lost'))
  const held = countOf(lines, 'login.failed') + countOf(lines, 'login.succeeded')
  const told = lines.filter(({ event }) => event === 'log.lines_lost')
  assert.equal(held + Number(told[0]?.lines), FAILURES + 1)
  assert.equal(told.length, 1)
  // The buffer of the service, plus about 64 KiB each in the pipe and in this process.
  assert.ok(bytes < 1_300_000, `${bytes} bytes were held`)
  context.diagnostic(`${held} lines (${bytes} bytes) were held, ${told[0]?.lines} lost`)

  service.kill('SIGTERM')
  assert.deepEqual(await once(service, 'close'), [0, null])
  assert.equal(lines.at(-1)?.event, 'service.stopped')
})
