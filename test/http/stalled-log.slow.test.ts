import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { inParallel, own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { BASE_ENV, createDeployment, type Line, SERVE, until } from '../support/process.ts'
import { createClient, PASSWORD, UNLIMITED } from '../support/service.ts'

/** Escaped, both exceed the 512 characters to which a logged text is cut. */
const EMAIL = `${'\u0001'.repeat(250)}@a.b`
const headers = { 'User-Agent': '\u0080'.repeat(300) }

const countOf = (lines: Line[], event: string) => lines.filter(line => line.event === event).length

test('while the log is not read, lines are dropped and counted, logins are answered, and memory is bounded', async context => {
  const FAILURES = 1_200
  const deployment = await own(createDeployment('sqlite', UNLIMITED))
  await deployment.addUser('kate@example.com')
  const [PORT, OPS_PORT] = [String(await freePort()), String(await freePort())]
  const env = { ...BASE_ENV, ...deployment.env, PORT, OPS_PORT }
  const [file = '', ...args] = SERVE
  // The output is not read until the logins have been answered.
  const service = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  context.after(() => service.kill('SIGKILL'))
  const readiness = () => fetch(`http://127.0.0.1:${OPS_PORT}/readyz`).catch(() => null)
  await until(async () => (await readiness())?.status === 200)
  const client = await createClient(`https://127.0.0.1:${PORT}`, deployment.dataDir)
  const failed = { body: { email: EMAIL, password: 'x' }, headers }
  await inParallel(8, async () => {
    for (let i = 0; i < FAILURES / 8; i++) assert.equal((await client.call(failed)).status, 401)
  })
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
