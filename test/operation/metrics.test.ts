// The ops port: connections that stall; /metrics: what is counted, that labels are bounded, and that the dashboard and the alerts use what exists.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect } from 'node:net'
import { describe, mock, test } from 'node:test'
import { startAdminService } from '../support/admin-service.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { namesOf, scrape } from '../support/metrics.ts'
import { eventsOf, inParallel, own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { until } from '../support/process.ts'
import { PASSWORD, startTestService } from '../support/service.ts'
import { AUTH, bearer } from '../support/session-client.ts'

/** Only with an admin API: test/admin/access.test.ts has one. */
const ADMIN_METRICS = ['admin_reads_total', 'admin_token_expiry_timestamp_seconds']
/** More than the port takes at a time. */
const STALLED = 300
/** One request of a kind may add the buckets of one more series. */
const SERIES_PER_ROUTE = 20

for (const engine of ENGINES_BY_RUN) {
  describe(`metrics on ${engine}`, async () => {
    const opsPort = await freePort()
    const service = await own(startTestService(engine, { OPS_PORT: String(opsPort) }))

    test('logins are counted by outcome, and so are sessions and blocks', async () => {
      const email = await service.newUser()
      const earlier = await scrape(opsPort)
      const { accessToken, refreshToken } = (await service.login(email, PASSWORD)).json.data
      for (let i = 0; i < 7; i++) await service.login(email, 'wrong password')
      const headers = bearer(accessToken)
      await service.call({ method: 'DELETE', path: `${AUTH}/sessions`, headers })
      await service.call({ path: `${AUTH}/refresh`, body: { refreshToken } })
      await service.call({ path: `${AUTH}/logout`, headers })
      const later = await scrape(opsPort)
      const answered = (route: string, status: number, method = 'POST') =>
        `http_request_duration_seconds_count{method="${method}",route="${AUTH}/${route}",status="${status}"}`
      const growth: Record<string, number> = {
        'login_attempts_total{outcome="succeeded"}': 1,
        'login_attempts_total{outcome="failed"}': 5,
        'login_attempts_total{outcome="throttled"}': 2,
        'login_attempts_total{outcome="shed"}': 0,
        'login_duration_seconds_count{outcome="failed"}': 5,
        'throttle_blocks_total{scope="pair"}': 2,
        'throttle_blocks_total{scope="email"}': 0,
        sessions_opened_total: 1,
        'sessions_ended_total{reason="logout"}': 1,
        'sessions_ended_total{reason="user"}': 0,
        password_hash_seconds_count: 6,
        password_queue_wait_seconds_count: 6,
        'database_operation_seconds_count{operation="refreshTokens.use",result="done"}': 1,
        [answered('login', 200)]: 1,
        [answered('login', 401)]: 5,
        [answered('login', 429)]: 2,
        [answered('refresh', 200)]: 1,
        [answered('sessions', 200, 'DELETE')]: 1,
      }
      for (const [series, grown] of Object.entries(growth)) {
        assert.equal((later.get(series) ?? 0) - (earlier.get(series) ?? 0), grown, series)
      }
    })

    test('series that have not occurred yet are there with 0, so that rate() sees their first event', async () => {
      const series = await scrape(opsPort)
      assert.equal(series.get('sessions_ended_total{reason="reuse"}'), 0)
      assert.equal(series.get('throttle_waits_total{scope="network"}'), 0)
      assert.equal(series.get('login_attempts_total{outcome="error"}'), 0)
    })

    test('gauges: queue, readiness, clock, purge, certificate, key, connections, version', async () => {
      const series = await scrape(opsPort)
      const now = Date.now() / 1000
      assert.equal(series.get('password_queue_depth'), 0)
      assert.equal(series.get('login_service_ready'), 1)
      assert.ok(Math.abs(Number(series.get('clock_offset_seconds'))) < 60)
      assert.ok(Math.abs(Number(series.get('purge_last_success_timestamp_seconds')) - now) < 3_600)
      assert.equal(series.get('log_lines_lost_total'), 0)
      assert.ok(Number(series.get('tls_certificate_expiry_timestamp_seconds')) > now)
      assert.ok(Number(series.get('signing_key_since_timestamp_seconds')) < now)
      assert.ok(Number.isSafeInteger(series.get('signing_keys_hash')))
      const idle = series.get('database_connections{state="idle"}')
      if (engine === 'postgres') assert.ok(Number(idle) >= 1)
      else assert.equal(idle, undefined)
      const build = [...series.keys()].find(name => name.startsWith('login_service_build_info'))
      assert.match(build ?? '', new RegExp(`engine="${engine}"`))
    })

    test('metrics and log tell that the service is not ready, and that it is again, without any probe', async () => {
      const isReady = async () => (await scrape(opsPort)).get('login_service_ready') === 1
      const events = () =>
        new Set(eventsOf(service.logged()).filter(event => /ready/.test(String(event))))
      assert.deepEqual(events(), new Set())
      await service.database.rows('alter table service rename to hidden')
      await until(async () => !(await isReady()))
      assert.deepEqual(events(), new Set(['service.not_ready']))
      await service.database.rows('alter table hidden rename to service')
      await until(isReady)
      assert.deepEqual(events(), new Set(['service.not_ready', 'service.ready_again']))
    })

    test('no text of a request becomes a label, and invented requests add no series without end', async () => {
      const marker = 'c4n4ry'
      const call = (method: string, path: string) => service.call({ method, path })
      const hostile = async () => {
        const id = randomUUID()
        await call('GET', `/${marker}/${id}`)
        await call('PROPFIND', `/${marker}-${id}?x=${marker}`)
        await call('DELETE', `${AUTH}/sessions/${id}`)
        await service.login(`${marker}-${id}@example.com`, marker)
        await service.call({
          headers: { 'User-Agent': marker, 'X-Request-ID': marker },
          body: { email: marker },
        })
      }
      await hostile()
      const earlier = await scrape(opsPort)
      for (let i = 0; i < 30; i++) await hostile()
      const later = await scrape(opsPort)
      assert.ok(later.size - earlier.size <= SERIES_PER_ROUTE)
      assert.ok(![...later.keys()].some(name => name.includes(marker)))
    })

    test('other methods are refused, and the public port has no metrics', async () => {
      const url = `http://127.0.0.1:${opsPort}/metrics`
      assert.equal((await fetch(url, { method: 'POST' })).status, 405)
      const { headers } = await fetch(url)
      assert.match(headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
      assert.equal((await service.call({ method: 'GET', path: '/metrics' })).status, 404)
    })

    /** What is not exported by this service, but by another one. */
    const elsewhere = [...ADMIN_METRICS, ...(engine === 'sqlite' ? ['database_connections'] : [])]

    test('docs/operations.md lists the metrics that exist', async () => {
      const document = await readFile('docs/operations.md', 'utf8')
      const rows = document.match(/(?<=\n\| metric \| tells \|\n).*?(?=\n\n)/s)?.[0] ?? ''
      const firstCells = rows.split('\n').map(row => row.split(' | ')[0] ?? '')
      const listed = firstCells.flatMap(cell => cell.match(/(?<=`)[a-z_]+(?=[{`])/g) ?? [])
      const isOwn = (name: string) => !/^(process|nodejs)_|_(bucket|sum|count)$/.test(name)
      const exported = [...namesOf(await scrape(opsPort))].filter(isOwn)
      assert.deepEqual(listed.toSorted(), [...exported, ...elsewhere].toSorted())
    })

    test('the dashboard and the alerts use only metrics that exist', async () => {
      const exported = new Set([...namesOf(await scrape(opsPort)), 'up', ...elsewhere])
      const dashboard = JSON.parse(await readFile('docs/grafana.json', 'utf8'))
      const expressions: string[] = dashboard.panels.flatMap(
        ({ targets }: { targets: { expr: string }[] }) => targets.map(({ expr }) => expr),
      )
      expressions.push(await readFile('deploy/prometheus/alerts.yml', 'utf8'))
      const metric =
        /\b\w+(?=\{)|\b\w+_(?:total|seconds|bytes|depth|info|count|bucket|service_ready|fds|hash)\b/g
      const used = expressions.flatMap(text => text.match(metric) ?? [])
      assert.ok(used.length > 30)
      const isKnown = (name: string) =>
        exported.has(name) || exported.has(name.replace(/_(bucket|count)$/, ''))
      assert.deepEqual(
        used.filter(name => !isKnown(name)),
        [],
      )
    })
  })
}

// Nothing here depends on the engine.
describe('the ops port', async () => {
  const port = await freePort()
  // A name of the machine itself, as an operator may give it one.
  const env = { OPS_HOST: 'localhost', OPS_PORT: String(port) }
  const service = await own(startAdminService('sqlite', env))

  test('callers cannot multiply the series by methods: labels name only what a route serves', async () => {
    await service.call({ method: 'GET', path: '/openapi.json' })
    const served = ['GET', 'HEAD', 'POST', 'DELETE']
    const others = ['OPTIONS', 'PUT', 'PATCH', 'TRACE', 'PROPFIND', 'M-SEARCH']
    for (const method of [...served, ...others]) {
      for (const headers of [{}, { Expect: 'nothing' }]) {
        for (const path of ['/login', '/docs', '/nothing', `${AUTH}/sessions`]) {
          await service.call({ method, path, headers })
        }
        for (const path of ['/users', '/audit', '/nothing']) {
          await service.admin(method, path, undefined, { token: null, headers })
        }
      }
    }
    const series = await scrape(port, 'localhost')
    const labels = /^http_request_duration_seconds_count\{method="(.*?)",route="(.*?)"/
    const pairs = [...series.keys()].flatMap(name => {
      const [, method, route] = labels.exec(name) ?? []
      return method ? [`${method} ${route}`] : []
    })
    const pages = ['/admin/v1/audit', '/admin/v1/users', `${AUTH}/sessions`, '/docs', '/login']
    const expected = [
      ...['GET', 'HEAD'].flatMap(method => pages.map(route => `${method} ${route}`)),
      ...['GET /openapi.json', 'POST /admin/v1/users', 'POST /login', `DELETE ${AUTH}/sessions`],
      'other other',
    ]
    assert.deepEqual(new Set(pairs), new Set(expected))
  })

  async function statusOf(path: string): Promise<number> {
    const sent = request({ host: 'localhost', port, path, agent: false }).end()
    const [answer] = await once(sent, 'response')
    answer.resume()
    return answer.statusCode
  }

  test('half requests give way to whole ones, and are closed in the end', async () => {
    const sockets = await inParallel(STALLED, async () => {
      const socket = connect(port, 'localhost')
      socket.on('error', () => {}).resume()
      await once(socket, 'connect')
      socket.write('GET /livez HTTP/1.1\r\nHost:')
      return socket
    })
    assert.equal(await statusOf('/livez'), 200)
    assert.equal(await statusOf('/readyz'), 200)
    await Promise.all(sockets.map(socket => socket.closed || once(socket, 'close')))
  })

  test('a metric that cannot be read fails the scrape, not the process', async () => {
    const read = mock.method(process, 'cpuUsage', () => {
      throw new Error('no clock')
    })
    assert.equal(await statusOf('/metrics'), 500)
    read.mock.restore()
    const line = service.logged().find(({ event }) => event === 'metrics.failed')
    assert.equal(line?.level, 'error')
    assert.equal(line?.msg, 'no clock')
    assert.equal(await statusOf('/metrics'), 200)
  })
})
