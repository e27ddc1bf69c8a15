// During a fault an instance has no more connections than its pool allows, abandoned ones included.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { after, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { nameStandby } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import { NO_FSYNC, startPostgres } from '../support/postgres-server.ts'
import { createDeployment, freezeServer, run, until } from '../support/process.ts'
import { type Answer, countStatuses, UNLIMITED } from '../support/service.ts'

const DATABASE_POOL_SIZE = '4'
const POOL_SIZE = Number(DATABASE_POOL_SIZE)
/** Each operation is given up at least twice. */
const FAULT_MS = 4_000
const SAMPLE_EVERY_MS = 20
const OWNER = 'owner@example.com'
/** 30 answers take longer than a request waits for a connection, and each of them much less. */
const ANSWER_DELAY_MS = 100

describe('connections to PostgreSQL', async () => {
  const server = await startPostgres(NO_FSYNC)
  const observer = new pg.Client(server.url)
  await observer.connect()
  after(() => observer.end())
  const deployment = await own(createDeployment('postgres', UNLIMITED, server.url))
  after(server.stop)
  await deployment.addUser(OWNER)

  /** The address of the database with another port, user or name of its connections. */
  function addressWith(parts: { port?: string; username?: string }, name = ''): string {
    const url = Object.assign(new URL(deployment.env.DATABASE_URL ?? ''), parts)
    if (name) url.searchParams.set('application_name', name)
    return url.toString()
  }
  const service = await deployment.start({
    DATABASE_URL: addressWith({}, 'observed'),
    DATABASE_POOL_SIZE,
  })

  /** A service whose connections go through a proxy. */
  async function startProxied(env: Record<string, string>, answerDelayMs = 0) {
    const proxy = await own(startProxy(Number(new URL(server.url).port), answerDelayMs))
    const DATABASE_URL = addressWith({ port: proxy.port }, 'proxied')
    return { proxy, proxied: await deployment.start({ DATABASE_URL, ...env }) }
  }

  async function backends(name = 'observed'): Promise<number[]> {
    const { rows } = await observer.query(
      'select pid from pg_stat_activity where application_name = $1',
      [name],
    )
    return rows.map(({ pid }) => pid)
  }

  async function holdLock(): Promise<() => Promise<void>> {
    const other = new pg.Client(deployment.env.DATABASE_URL)
    await other.connect()
    await other.query('begin; lock table login_throttle')
    return () => other.end()
  }

  /** A commit then waits for a standby that does not exist; the server's statement_timeout is over by then. */
  async function missStandby(): Promise<() => Promise<void>> {
    await nameStandby(server, 'missing')
    return () => nameStandby(server, '')
  }

  for (const [title, begin] of [
    ['another session holds a lock', holdLock],
    ['commits wait for a standby', missStandby],
    ['the server is frozen', () => freezeServer(server, `application_name = 'observed'`)],
  ] as const) {
    test(`stay within the pool while ${title}, and logins succeed afterwards`, async () => {
      await inParallel(20, () => service.login(OWNER))
      let most = 0
      let isOver = false
      const sampling = (async () => {
        while (!isOver) {
          most = Math.max(most, (await backends()).length)
          await setTimeout(SAMPLE_EVERY_MS)
        }
      })()

      const end = await begin()
      const endsAt = performance.now() + FAULT_MS
      const answered = await inParallel(30, async () => {
        const statuses: number[] = []
        while (performance.now() < endsAt) statuses.push((await service.login(OWNER)).status)
        return statuses
      })
      assert.ok(answered.flat().filter(status => status === 500).length > POOL_SIZE)
      await end()
      await until(async () => (await service.login(OWNER)).status === 200)
      await inParallel(30, () => service.login(OWNER))
      isOver = true
      await sampling
      assert.ok(most >= 2 && most <= POOL_SIZE, `${most} connections`)
    })
  }

  test('are replaced after a proxy is silent on its open connections, and on all for a while; free ones are used instead of those that are being opened', async () => {
    const { proxy, proxied } = await startProxied({ DATABASE_POOL_SIZE })
    const logIn = async (times = 20) =>
      Object.keys(countStatuses(await inParallel(times, () => proxied.login(OWNER))))
    const recover = () =>
      until(async () => {
        const isWell = (await logIn()).join() === '200'
        return isWell && (await backends('proxied')).length === POOL_SIZE
      })
    await proxied.login(OWNER)
    proxy.setSilent(true)
    assert.deepEqual(await logIn(5), ['200'])
    proxy.setSilent(false)
    await recover()
    for (const isAlsoForNew of [false, true]) {
      proxy.silence(isAlsoForNew)
      assert.ok((await logIn()).includes('500'))
      proxy.setSilent(false)
      await recover()
    }
  })

  test('that are in use for too long: 503 while the database answers others, else 500', async () => {
    const { proxy, proxied } = await startProxied({ DATABASE_POOL_SIZE: '1' }, ANSWER_DELAY_MS)
    const { accessToken } = (await service.login(OWNER)).json.data
    const headers = { Authorization: `Bearer ${accessToken}` }
    const ask = () => proxied.call({ method: 'GET', path: '/api/v1/auth/session', headers })
    const answers: Answer[] = []
    await inParallel(30, async () => {
      while (answers.every(({ status }) => status === 200)) answers.push(await ask())
    })
    assert.deepEqual(Object.keys(countStatuses(answers)), ['200', '503'])
    for (const { status, headers } of answers) {
      assert.equal(headers['retry-after'], status === 503 ? '1' : undefined)
    }
    assert.equal((await proxied.line('request.refused')).reason, 'database-busy')

    proxy.silence(true)
    assert.deepEqual(countStatuses(await inParallel(5, ask)), { 500: 5 })
  })

  describe('that the server refuses', async () => {
    await observer.query('create role limited login in role postgres connection limit 0')
    const env = { ...deployment.env, DATABASE_URL: addressWith({ username: 'limited' }) }

    test('are not waited for without end at the start', async () => {
      const service = run(env)
      assert.equal((await service.exit).code, 1)
      assert.match(service.output(), /cannot be used: too many connections for role "limited"/)
    })

    test('are waited for at the start, and fail no logins while others are open', async () => {
      const starting = deployment.start(env)
      await setTimeout(2_000)
      await observer.query('alter role limited connection limit 3')
      const limited = await starting
      const logins = await inParallel(20, () => limited.login(OWNER))
      assert.deepEqual(countStatuses(logins), { 200: 20 })
    })
  })
})

/** A TCP proxy that can lose its connections without closing them, like a balancer or a firewall. */
async function startProxy(serverPort: number, answerDelayMs: number) {
  const flows = new Map<Socket, Socket>()
  let isSilent = false
  const proxy = createServer({ allowHalfOpen: true }, client => {
    const upstream = connect(serverPort, '127.0.0.1').on('error', () => {})
    flows.set(
      client.on('error', () => {}),
      upstream,
    )
    if (isSilent) lose(client, upstream)
    else client.pipe(upstream).pipe(delayed()).pipe(client)
  })
  const delayed = () =>
    new Transform({
      transform: (chunk, _, done) => setTimeout(answerDelayMs).then(() => done(null, chunk)),
    })
  const lose = (client: Socket, upstream: Socket) => {
    client.unpipe().resume()
    upstream.unpipe().destroy()
  }
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  return {
    port: String((proxy.address() as AddressInfo).port),
    silence(isAlsoForNew: boolean) {
      isSilent = isAlsoForNew
      for (const [client, upstream] of flows) lose(client, upstream)
    },
    /** For new connections. */
    setSilent(value: boolean) {
      isSilent = value
    },
    async stop() {
      proxy.close()
      for (const socket of [...flows].flat()) socket.destroy()
    },
  }
}
