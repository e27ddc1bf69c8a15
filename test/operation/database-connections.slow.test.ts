// For 10 seconds of a fault, an instance has no more connections than its pool allows, abandoned ones included.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { nameStandby } from '../support/engines.ts'
import { NO_FSYNC, type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import {
  createDeployment,
  type Deployment,
  run,
  type ServiceProcess,
  until,
} from '../support/process.ts'
import { type Answer, countStatuses, UNLIMITED } from '../support/service.ts'

const POOL_SIZE = 4
const FAULT_MS = 6_000
const SAMPLE_EVERY_MS = 20
const OWNER = 'owner@example.com'
/** 30 answers take longer than a request waits for a connection, and each of them much less. */
const ANSWER_DELAY_MS = 100

describe('connections to PostgreSQL', () => {
  let server: PostgresServer
  let deployment: Deployment
  let service: ServiceProcess
  let observer: pg.Client
  before(async () => {
    server = await startPostgres(NO_FSYNC)
    deployment = await createDeployment('postgres', UNLIMITED, server.url)
    await deployment.addUser(OWNER)
    observer = new pg.Client(server.url)
    await observer.connect()
    const url = new URL(deployment.env.DATABASE_URL ?? '')
    url.searchParams.set('application_name', 'observed')
    service = await deployment.start({
      DATABASE_URL: url.toString(),
      DATABASE_POOL_SIZE: String(POOL_SIZE),
    })
  })
  after(async () => {
    await observer.end()
    await deployment.remove()
    await server.stop()
  })

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

  /** The first process answers no new connection either. */
  async function freeze(): Promise<() => Promise<void>> {
    const frozen = [server.pid(), ...(await backends())]
    for (const pid of frozen) process.kill(pid, 'SIGSTOP')
    return async () => {
      for (const pid of frozen) process.kill(pid, 'SIGCONT')
    }
  }

  for (const [title, begin] of [
    ['another session holds a lock', holdLock],
    ['commits wait for a standby', missStandby],
    ['the server is frozen', freeze],
  ] as const) {
    test(`stay within the pool while ${title}, and logins succeed afterwards`, async () => {
      await Promise.all(Array.from({ length: 20 }, () => service.login(OWNER)))
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
      const clients = Array.from({ length: 30 }, async () => {
        const statuses: number[] = []
        while (performance.now() < endsAt) statuses.push((await service.login(OWNER)).status)
        return statuses
      })
      const statuses = (await Promise.all(clients)).flat()
      assert.ok(statuses.filter(status => status === 500).length > POOL_SIZE)
      await end()
      await until(async () => (await service.login(OWNER)).status === 200)
      await Promise.all(Array.from({ length: 30 }, () => service.login(OWNER)))
      isOver = true
      await sampling
      assert.ok(most >= 2 && most <= POOL_SIZE, `${most} connections`)
    })
  }

  for (const [title, isAlsoForNew] of [
    ['is silent on its open connections', false],
    ['is silent on all connections for a while', true],
  ] as const) {
    test(`are replaced after a proxy ${title}`, async () => {
      const proxy = await startProxy(Number(new URL(server.url).port))
      const url = new URL(deployment.env.DATABASE_URL ?? '')
      url.port = proxy.port
      url.searchParams.set('application_name', 'proxied')
      const proxied = await deployment.start({
        DATABASE_URL: url.toString(),
        DATABASE_POOL_SIZE: String(POOL_SIZE),
      })
      const logIn = async () =>
        (await Promise.all(Array.from({ length: 20 }, () => proxied.login(OWNER)))).map(
          ({ status }) => status,
        )
      try {
        if (!isAlsoForNew) await logIn()
        proxy.silence(isAlsoForNew)
        assert.ok((await logIn()).includes(500))
        proxy.acceptNew()
        await until(async () => {
          const statuses = await logIn()
          const isPoolFull = (await backends('proxied')).length === POOL_SIZE
          return isPoolFull && statuses.every(status => status === 200)
        })
      } finally {
        proxied.kill('SIGKILL')
        await proxied.exit
        proxy.close()
      }
    })
  }

  test('that are in use for too long: 503 while the database answers others, else 500', async () => {
    const proxy = await startProxy(Number(new URL(server.url).port), ANSWER_DELAY_MS)
    const url = new URL(deployment.env.DATABASE_URL ?? '')
    url.port = proxy.port
    const busy = await deployment.start({ DATABASE_URL: url.toString(), DATABASE_POOL_SIZE: '1' })
    const { accessToken } = (await service.login(OWNER)).json.data
    const headers = { Authorization: `Bearer ${accessToken}` }
    const ask = () => busy.call({ method: 'GET', path: '/api/v1/auth/session', headers })
    try {
      const answers: Answer[] = []
      const clients = Array.from({ length: 30 }, async () => {
        while (answers.every(({ status }) => status === 200)) answers.push(await ask())
      })
      await Promise.all(clients)
      assert.deepEqual(Object.keys(countStatuses(answers)), ['200', '503'])
      for (const { status, headers } of answers) {
        assert.equal(headers['retry-after'], status === 503 ? '1' : undefined)
      }
      assert.equal((await busy.line('request.refused')).reason, 'database-busy')

      proxy.silence(true)
      const frozen = await Promise.all(Array.from({ length: 5 }, ask))
      assert.deepEqual(countStatuses(frozen), { 500: 5 })
    } finally {
      busy.kill('SIGKILL')
      await busy.exit
      proxy.close()
    }
  })

  /** The environment of a service whose role may have only so many connections. */
  async function asLimited(connections: number): Promise<Record<string, string>> {
    await observer.query('drop role if exists limited')
    await observer.query(
      `create role limited login in role postgres connection limit ${connections}`,
    )
    const url = new URL(deployment.env.DATABASE_URL ?? '')
    url.username = 'limited'
    return { ...deployment.env, DATABASE_URL: url.toString() }
  }

  test('are waited for at the start while the server has no room', async () => {
    const service = run(await asLimited(0))
    try {
      await setTimeout(2_000)
      await observer.query('alter role limited connection limit 2')
      await service.line('service.started')
    } finally {
      service.kill('SIGKILL')
      await service.exit
    }
  })

  test('are not waited for without end', async () => {
    const service = run(await asLimited(0))
    assert.equal((await service.exit).code, 1)
    assert.match(service.output(), /cannot be used: too many connections for role "limited"/)
  })

  test('that are free are used, instead of those that are being opened', async () => {
    const proxy = await startProxy(Number(new URL(server.url).port))
    const url = new URL(deployment.env.DATABASE_URL ?? '')
    url.port = proxy.port
    const proxied = await deployment.start({ DATABASE_URL: url.toString() })
    try {
      await proxied.login(OWNER)
      proxy.silenceNew()
      const logins = await Promise.all(Array.from({ length: 5 }, () => proxied.login(OWNER)))
      assert.deepEqual(countStatuses(logins), { 200: 5 })
    } finally {
      proxied.kill('SIGKILL')
      await proxied.exit
      proxy.close()
    }
  })

  test('that the server refuses do not fail logins while others are open', async () => {
    const limited = await deployment.start(await asLimited(3))
    const logins = await Promise.all(Array.from({ length: 20 }, () => limited.login(OWNER)))
    for (const { status } of logins) assert.equal(status, 200)
  })
})

/** A TCP proxy that can lose its connections without closing them, like a balancer or a firewall. */
async function startProxy(serverPort: number, answerDelayMs = 0) {
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
    silenceNew() {
      isSilent = true
    },
    acceptNew() {
      isSilent = false
    },
    close() {
      proxy.close()
      for (const socket of [...flows].flat()) socket.destroy()
    },
  }
}
