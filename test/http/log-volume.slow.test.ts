// How much a caller can write into the log.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createDeployment, until } from '../support/process.ts'
import { loggedBy, startTestService, type TestService, UNLIMITED } from '../support/service.ts'

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
