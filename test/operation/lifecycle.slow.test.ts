// How the service ends on signals.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { shakeHands } from '../support/certificates.ts'
import { NO_PINNED_NODE, oldNode } from '../support/old-node.ts'
import { eventsOf, faultsIn, own } from '../support/own.ts'
import {
  createDeployment,
  type Line,
  PROJECT,
  type RunningProcess,
  SERVE,
  stop,
  until,
} from '../support/process.ts'
import { createClient, LOGIN, PASSWORD, WITH_THREADS } from '../support/service.ts'

const EXIT_WITHIN_MS = 10_000
const SLOW_COST = 12
/** A signal has to arrive while logins are verified. If it comes too late, it is tried again with slower hashes. */
const SLOW_COSTS = [SLOW_COST, 13, 14, 15]
/** As many as are hashed at once: a slow machine might shed more. */
const IN_FLIGHT = availableParallelism()
/** Long enough for some logins on a busy machine. */
const DELAY_MS = 4_000
const [node = '', ...serve] = SERVE
const OLD_SERVE = [node, ...(NO_PINNED_NODE ? [] : oldNode()), ...serve]

describe('on a signal', async () => {
  const env = { ...WITH_THREADS, BCRYPT_COST: String(SLOW_COST) }
  const deployment = await own(createDeployment('sqlite', env))

  async function countUnderWay(): Promise<number> {
    const [row] = await deployment.database.rows(
      "select sum(pending) as pending from login_throttle where scope = 'client'",
    )
    return Number(row?.pending)
  }

  async function addSlowUsers(count: number, cost: number): Promise<string[]> {
    await deployment.database.rows('delete from login_throttle')
    const passwordHash = await bcrypt.hash(PASSWORD, cost)
    const emails = Array.from({ length: count }, () => `${randomUUID()}@example.com`)
    for (const email of emails) await deployment.addUser(email, passwordHash)
    return emails
  }

  /** Returns false if the logins were answered before all of them were seen under way. */
  async function areUnderWay(logins: Promise<unknown>[]): Promise<boolean> {
    let areAnswered = false
    void Promise.allSettled(logins).then(() => {
      areAnswered = true
    })
    await until(async () => areAnswered || (await countUnderWay()) === logins.length)
    return !areAnswered
  }

  /** Sends a login of a new user, until one is seen under way. */
  async function sendUnderWay<T>(send: (email: string) => Promise<T>) {
    for (const cost of SLOW_COSTS) {
      const [email = ''] = await addSlowUsers(1, cost)
      const answer = send(email)
      if (await areUnderWay([answer])) return { email, answer }
    }
    throw new Error('each login was answered before it was seen under way')
  }

  const WAYS: [string, string[], (service: RunningProcess) => unknown][] = [
    ['SIGTERM to the older Node that started it', OLD_SERVE, service => service.kill('SIGTERM')],
    ['Ctrl-C, which reaches both Nodes', OLD_SERVE, service => service.killGroup('SIGINT')],
    ['SIGTERM to npm', ['npm', 'start'], service => service.kill('SIGTERM')],
  ]
  for (const [way, command, signal] of WAYS) {
    test(`${way}: logins under way are answered, new ones refused, and the service stops once and in time`, async () => {
      for (const cost of SLOW_COSTS) if (await isInTime(cost)) return
      assert.fail('the service ended before it could refuse a login')
    })

    async function isInTime(cost: number): Promise<boolean> {
      const emails = await addSlowUsers(IN_FLIGHT, cost)
      const service = await deployment.start({}, { command, cwd: PROJECT, hasOwnGroup: true })
      const kept = await createClient(service.url, deployment.dataDir)
      await kept.call({ method: 'GET', path: '/.well-known/jwks.json' })
      const fresh = await createClient(service.url, deployment.dataDir)

      const logins = emails.map(email => service.login(email))
      const wereUnderWay = await areUnderWay(logins)
      const askedAt = performance.now()
      signal(service)
      await service.line('service.stopping')
      signal(service)
      // All at once: the service ends with the last login under way.
      const refused = [kept, fresh].map(({ call }) =>
        call({ body: { email: emails[0], password: 'x' } }),
      )
      const probes = [service.health('/readyz'), service.health('/livez')] as const
      const answers = await Promise.all([...probes, ...refused]).catch(() => null)

      const loggedIn = await Promise.all(logins).catch(() => [])
      assert.deepEqual(await service.exit, { code: 0, signal: null })
      kept.close()
      fresh.close()
      const events = eventsOf(service.lines())
      // The machine has stood still for seconds.
      if (events.includes('service.cut_off')) return false
      assert.deepEqual(
        loggedIn.map(({ status }) => status),
        emails.map(() => 200),
      )
      assert.ok(performance.now() - askedAt < EXIT_WITHIN_MS)
      assert.equal(events.filter(event => event === 'service.stopping').length, 1)
      assert.equal(events.at(-1), 'service.stopped')

      if (!wereUnderWay || !answers) return false
      const [ready, live, ...refusals] = answers
      assert.deepEqual([ready, live], [503, 200])
      for (const { status, headers, json } of refusals) {
        assert.deepEqual([status, json.error.code], [503, 'SERVICE_UNAVAILABLE'])
        assert.ok(Number(headers['retry-after']) > 0)
        assert.equal(headers.connection, 'close')
      }
      return true
    }
  }

  test('during the drain delay /readyz is 503 and requests are served; a second signal changes nothing; then they are refused', async () => {
    await deployment.addUser('delay@example.com')
    const service = await deployment.start({ DRAIN_DELAY_MS: String(DELAY_MS), BCRYPT_COST: '4' })
    const kept = await createClient(service.url, deployment.dataDir)
    await kept.call({ method: 'GET', path: '/.well-known/jwks.json' })
    const login = { body: { email: 'delay@example.com', password: PASSWORD } }

    const askedAt = performance.now()
    service.kill('SIGTERM')
    await service.line('service.stopping')
    assert.equal(await service.health('/readyz'), 503)
    assert.equal(await service.health('/livez'), 200)
    service.kill('SIGTERM')
    service.kill('SIGINT')
    let served = 0
    for (;;) {
      // Each answer closes its connection, so each further login opens one.
      const answer = await kept.call(login).catch(() => null)
      if (answer?.status !== 200) {
        assert.ok(answer === null || answer.status === 503)
        break
      }
      assert.equal(answer.headers.connection, 'close')
      served++
    }
    assert.ok(served > 1, `${served} served`)
    assert.ok(performance.now() - askedAt >= DELAY_MS)
    assert.deepEqual(await service.exit, { code: 0, signal: null })
    assert.deepEqual(faultsIn({ logged: service.lines }), [])
    kept.close()
  })

  function openTerminal(command: string) {
    const env = { ...process.env, ...deployment.env, NODE_ENV: 'test', PORT: '0', OPS_PORT: '0' }
    const options = { env, cwd: PROJECT, stdio: 'pipe' } as const
    return spawn('script', ['-qec', command, '/dev/null'], options)
  }

  test('SIGHUP reloads while the terminal is open, and ends the service after its logins when it is closed', async () => {
    const output = join(deployment.dataDir, 'output')
    const command = `echo $$ > '${output}.pid'; exec ${SERVE.map(word => `'${word}'`).join(' ')} > '${output}'`
    const terminal = openTerminal(command)
    const find = async (event: string): Promise<Line | undefined> => {
      const lines = (await readFile(output, 'utf8').catch(() => '')).split('\n').filter(Boolean)
      return lines.map(line => JSON.parse(line)).find(line => line.event === event)
    }
    await until(async () => (await find('service.started')) !== undefined)
    const url = String((await find('service.started'))?.address)
    process.kill(Number(await readFile(`${output}.pid`, 'utf8')), 'SIGHUP')
    await until(async () => (await find('keys.reloaded')) !== undefined)
    const client = await createClient(url, deployment.dataDir)
    const { answer } = await sendUnderWay(email =>
      client.call({ body: { email, password: PASSWORD } }),
    )
    terminal.kill('SIGKILL')
    assert.equal((await answer).status, 200)
    client.close()
    await until(async () => (await find('service.stopped')) !== undefined)
    const stopping = await find('service.stopping')
    assert.equal(stopping?.reason, 'SIGHUP')
    assert.equal(stopping?.delayMs, 0, 'the default on a terminal')
  })

  test('Ctrl-C on the terminal of npm start ends npm with 0, after the service', async () => {
    const terminal = openTerminal('exec npm start')
    let output = ''
    terminal.stdout.on('data', chunk => {
      output += chunk
    })
    await until(async () => output.includes('service.started'))
    terminal.stdin.write('\x03')
    assert.deepEqual(await once(terminal, 'close'), [0, null])
    assert.equal(output.split('service.stopping').length, 2)
    assert.match(output, /service\.stopped/)
  })

  test('SIGHUP reloads the keys and ends no login; SIGTERM waits for one whose caller has disconnected', async () => {
    const service = await deployment.start()
    const { answer } = await sendUnderWay(email => service.login(email))
    service.kill('SIGHUP')
    await service.line('keys.reloaded')
    assert.equal((await answer).status, 200)

    const caller = await shakeHands(service.url)
    const { email } = await sendUnderWay(email => {
      caller.write(loginRequest(email, 'wrong password'))
      return once(caller, 'data')
    })
    caller.destroy()
    await stop(service)
    const [failed] = await deployment.database.rows(
      `select failed_login_attempts from users where email = '${email}'`,
    )
    assert.equal(failed?.failed_login_attempts, 1)
    assert.equal(await countUnderWay(), 0)
    assert.deepEqual(faultsIn({ logged: service.lines }), [])
  })

  test('the end waits for the new hash after an answered login, and not for connections that are idle or have sent half a request or nothing', async () => {
    await deployment.addUser('rehash@example.com')
    const service = await deployment.start()
    const idle = await shakeHands(service.url)
    idle.write('GET /.well-known/jwks.json HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await once(idle, 'data')
    const halfHeaders = await shakeHands(service.url)
    halfHeaders.write('POST /api/v1/auth/login HTTP/1.1\r\nHost: local')
    const halfBody = await shakeHands(service.url)
    halfBody.write(loginRequest('half@example.com', 'x').slice(0, -5))
    const noHandshake = createConnection(Number(new URL(service.url).port), '127.0.0.1')
    await once(noHandshake, 'connect')
    const sockets = [idle, halfHeaders, halfBody, noHandshake]
    for (const socket of sockets) socket.on('error', () => {})

    assert.equal((await service.login('rehash@example.com')).status, 200)
    const askedAt = performance.now()
    await stop(service)
    assert.ok(performance.now() - askedAt < EXIT_WITHIN_MS / 2)
    for (const socket of sockets) socket.destroy()
    const [rehashed] = await deployment.database.rows(
      "select password_hash from users where email = 'rehash@example.com'",
    )
    assert.ok(String(rehashed?.password_hash).startsWith(`$2b$${SLOW_COST}$`))
    assert.deepEqual(faultsIn({ logged: service.lines }), [])
  })
})

function loginRequest(email: string, password: string): string {
  const body = JSON.stringify({ email, password })
  const headers = ['Host: localhost', 'Content-Type: application/json']
  return [`POST ${LOGIN} HTTP/1.1`, ...headers, `Content-Length: ${body.length}`, '', body].join(
    '\r\n',
  )
}
