// The proof for every fault of the database: logins fail in time, nothing is lost, and the service recovers.
import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import { decodeJwt } from 'jose'
import { type Deployment, type ServiceProcess, timedByTicks, until } from './process.ts'
import { type Answer, PASSWORD } from './service.ts'

const INTERNAL_ERROR =
  '{"success":false,"error":{"code":"INTERNAL_ERROR","message":"An unexpected error occurred. Please try again later."}}'
/** A busy machine sheds some attempts before it uses the database. */
const SHED = 503
const PARALLEL = 30
/** A login waits at most 1.5 s for the database. */
const ANSWERED_WITHIN_MS = 2_000
/** A blocked event loop would not answer for a second and more. */
const ALIVE_WITHIN_MS = 500
/** Often enough to notice a blocked event loop; without a pause the probes would take a whole core. */
const PULSE_EVERY_MS = 20
/** On a busy machine the limits grow by this multiple of the times measured without a fault. */
const LOAD_FACTOR = 4
export const OWNER = 'owner@example.com'
const USERS = Array.from({ length: PARALLEL }, (_, index) => `user${index}@example.com`)

export type Fault = {
  title: string
  begin: () => Promise<unknown>
  /** The logged error: the first one, not an error of the cleanup after it. */
  reason: RegExp
  end: () => Promise<unknown>
}

export async function proveFault(
  deployment: Deployment,
  service: ServiceProcess,
  fault: Fault,
): Promise<void> {
  assert.equal((await service.login(OWNER)).status, 200)
  await until(async () => (await service.health('/readyz')) === 200)
  // Opens all connections, so that no handshake is measured.
  await Promise.all(USERS.map(email => service.login(email)))
  const limits = await measureHealthy(service)

  const load = startLoad(service, limits)
  let interrupted: Answer[] = []
  try {
    await load.flowing()
    await fault.begin()
    interrupted = await load.stop()
    await proveRefusals(service, fault.reason, limits)
  } finally {
    await fault.end()
  }

  await until(async () => (await service.health('/readyz')) === 200)
  assert.equal((await service.login(OWNER)).status, 200)
  assert.equal((await service.login(OWNER, 'wrong password')).status, 401)

  const stored = await deployment.database.rows('select id from refresh_tokens')
  const storedIds = new Set(stored.map(({ id }) => id))
  for (const { status, text, json } of interrupted) {
    if (status === 200) assert.ok(storedIds.has(decodeJwt(json.data.refreshToken).jti))
    else if (status !== SHED) assert.equal(text, INTERNAL_ERROR)
  }
}

/** On a slow machine an operation may reach its time limit before the database fails it. */
const TIME_LIMIT = /^timeout|did not answer in time$/

type Limits = { answeredWithinMs: number; aliveWithinMs: number }

/** Measures as many logins at once as are sent while the database fails. */
async function measureHealthy(service: ServiceProcess): Promise<Limits> {
  const logins = Promise.all(USERS.map(email => timedByTicks(service.login(email))))
  const slowestPulseMs = await pulseDuring(service, logins)
  const slowestLoginMs = Math.max(...(await logins).map(({ ms }) => ms))
  return {
    answeredWithinMs: ANSWERED_WITHIN_MS + LOAD_FACTOR * slowestLoginMs,
    aliveWithinMs: ALIVE_WITHIN_MS + LOAD_FACTOR * slowestPulseMs,
  }
}

/** Half of the logins have the right password. */
async function proveRefusals(
  service: ServiceProcess,
  reason: RegExp,
  { answeredWithinMs, aliveWithinMs }: Limits,
): Promise<void> {
  const linesBefore = service.lines().length
  // The result of a check before the fault is used for a second.
  const readiness = timedByTicks(until(async () => (await service.health('/readyz')) === 503))
  const logins = Promise.all(
    USERS.map((email, index) =>
      timedByTicks(service.login(email, index % 2 === 0 ? PASSWORD : 'wrong password')),
    ),
  )
  const slowestPulseMs = await pulseDuring(service, logins)
  for (const { ms } of await logins) assert.ok(ms < answeredWithinMs, `answered after ${ms} ms`)
  const refused = (await logins).filter(({ value }) => value.status !== SHED)
  for (const { value } of refused) {
    assert.equal(value.status, 500)
    assert.equal(value.text, INTERNAL_ERROR)
  }
  assert.ok((await readiness).ms < answeredWithinMs + 1_000, 'not ready in time')
  assert.ok(slowestPulseMs < aliveWithinMs, `alive after ${slowestPulseMs} ms`)

  const lines = () => service.lines().slice(linesBefore)
  const failures = () => lines().filter(({ event }) => event === 'request.failed')
  assert.ok(refused.length > 0)
  // The first failure is logged at once, the others as a count a second later.
  await until(
    async () => failures().reduce((sum, { count = 1 }) => sum + Number(count), 0) >= refused.length,
  )
  for (const { level, err, count } of failures()) {
    assert.equal(level, 'error')
    const { message = '' } = err ?? {}
    if (count === undefined && !TIME_LIMIT.test(message)) assert.match(message, reason)
  }
  assert.deepEqual(
    lines().filter(({ event }) => event.startsWith('login.') && event !== 'login.shed'),
    [],
    'no attempt was verified',
  )
  assert.ok(!service.output().includes(PASSWORD))
}

async function pulseDuring(service: ServiceProcess, work: Promise<unknown>): Promise<number> {
  let isOver = false
  const over = () => {
    isOver = true
  }
  work.then(over, over)
  let slowestMs = 0
  while (!isOver) {
    slowestMs = Math.max(slowestMs, (await timedByTicks(service.health('/livez'))).ms)
    await setTimeout(PULSE_EVERY_MS)
  }
  return slowestMs
}

/** Logins without a pause, so that the fault interrupts each of their steps. */
function startLoad(service: ServiceProcess, { answeredWithinMs }: Limits) {
  const answers: Answer[] = []
  let isStopped = false
  const clients = USERS.slice(0, 8).map(async email => {
    while (!isStopped) {
      const { value, ms } = await timedByTicks(service.login(email))
      assert.ok(ms < answeredWithinMs, `answered after ${ms} ms`)
      answers.push(value)
    }
  })
  const ended = Promise.all(clients)
  // Awaited by `stop`; until then a rejection must not end the test process.
  ended.catch(() => {})
  return {
    flowing: () => Promise.race([until(async () => answers.length > clients.length), ended]),
    async stop() {
      isStopped = true
      await ended
      return answers
    },
  }
}

export async function startWithUsers(deployment: Deployment, command: string[], env = {}) {
  for (const email of [OWNER, ...USERS]) await deployment.addUser(email)
  return deployment.start(env, { command })
}
