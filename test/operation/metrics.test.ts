// /metrics: what is counted, that labels are bounded, and that the dashboard and the alerts use what exists.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { startAdminService } from '../support/admin-service.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { namesOf, scrape } from '../support/metrics.ts'
import { freePort } from '../support/postgres-server.ts'
import { until } from '../support/process.ts'
import { PASSWORD, startTestService, type TestService } from '../support/service.ts'

const AUTH = '/api/v1/auth'
/** Only with an admin API: test/admin/access.test.ts has one. */
const ADMIN_METRICS = ['admin_reads_total', 'admin_token_expiry_timestamp_seconds']
/** One request of a kind may add the buckets of one more series. */
const SERIES_PER_ROUTE = 20

for (const engine of ENGINES_BY_RUN) {
  describe(`metrics on ${engine}`, () => {
    let service: TestService
    let opsPort: number
    let email: string
    before(async () => {
      opsPort = await freePort()
      service = await startTestService(engine, { OPS_PORT: String(opsPort) })
      email = await service.newUser()
    })
    after(() => service.stop())

    /** How much each series grew during the action; those that did not are left out. */
    async function growth(action: () => Promise<unknown>) {
      const earlier = await scrape(opsPort)
      await action()
      const later = await scrape(opsPort)
      return (series: string) => (later.get(series) ?? 0) - (earlier.get(series) ?? 0)
    }

    test('logins are counted by outcome, and so are sessions and blocks', async () => {
      const grew = await growth(async () => {
        const { json } = await service.login(email, PASSWORD)
        for (let i = 0; i < 7; i++) await service.login(email, 'wrong password')
        const headers = { Authorization: `Bearer ${json.data.accessToken}` }
        await service.call({ method: 'DELETE', path: `${AUTH}/sessions`, headers })
        const { refreshToken } = json.data
        await service.call({ path: `${AUTH}/refresh`, body: { refreshToken } })
        await service.call({ path: `${AUTH}/logout`, headers })
      })
      assert.equal(grew('login_attempts_total{outcome="succeeded"}'), 1)
      assert.equal(grew('login_attempts_total{outcome="failed"}'), 5)
      assert.equal(grew('login_attempts_total{outcome="throttled"}'), 2)
      assert.equal(grew('login_attempts_total{outcome="shed"}'), 0)
      assert.equal(grew('login_duration_seconds_count{outcome="failed"}'), 5)
      assert.equal(grew('throttle_blocks_total{scope="pair"}'), 2)
      assert.equal(grew('throttle_blocks_total{scope="email"}'), 0)
      assert.equal(grew('sessions_opened_total'), 1)
      assert.equal(grew('sessions_ended_total{reason="logout"}'), 1)
      assert.equal(grew('sessions_ended_total{reason="user"}'), 0)
      assert.equal(grew('password_hash_seconds_count'), 6)
      assert.equal(grew('password_queue_wait_seconds_count'), 6)
      assert.equal(
        grew('database_operation_seconds_count{operation="refreshTokens.use",result="done"}'),
        1,
      )
      const request = (route: string, status: number, method = 'POST') =>
        grew(
          `http_request_duration_seconds_count{method="${method}",route="${AUTH}/${route}",status="${status}"}`,
        )
      assert.equal(request('login', 200), 1)
      assert.equal(request('login', 401), 5)
      assert.equal(request('login', 429), 2)
      assert.equal(request('refresh', 200), 1)
      assert.equal(request('sessions', 200, 'DELETE'), 1)
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

    test('the metrics show that the service is not ready, and that it is again, without any probe', async () => {
      const isReady = async () => (await scrape(opsPort)).get('login_service_ready') === 1
      await service.database.rows('alter table service rename to hidden')
      await until(async () => !(await isReady()))
      await service.database.rows('alter table hidden rename to service')
      await until(isReady)
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

    test('docs/operations.md lists the metrics that exist', async () => {
      const document = await readFile('docs/operations.md', 'utf8')
      const rows = document.match(/(?<=\n\| metric \| tells \|\n).*?(?=\n\n)/s)?.[0] ?? ''
      const firstCells = rows.split('\n').map(row => row.split(' | ')[0] ?? '')
      const listed = firstCells.flatMap(cell => cell.match(/(?<=`)[a-z_]+(?=[{`])/g) ?? [])
      const isOwn = (name: string) => !/^(process|nodejs)_|_(bucket|sum|count)$/.test(name)
      const exported = [...namesOf(await scrape(opsPort))].filter(isOwn)
      if (engine === 'sqlite') exported.push('database_connections')
      exported.push(...ADMIN_METRICS)
      assert.deepEqual(listed.sort(), exported.sort())
    })

    test('the dashboard and the alerts use only metrics that exist', async () => {
      const exported = namesOf(await scrape(opsPort))
      const others = engine === 'sqlite' ? ['database_connections'] : []
      for (const name of ['up', ...ADMIN_METRICS, ...others]) exported.add(name)
      const dashboard = JSON.parse(await readFile('docs/grafana.json', 'utf8'))
      const expressions: string[] = dashboard.panels.flatMap(
        ({ targets }: { targets: { expr: string }[] }) => targets.map(({ expr }) => expr),
      )
      expressions.push(await readFile('deploy/prometheus/alerts.yml', 'utf8'))
      const used = expressions.flatMap(
        text =>
          text.match(
            /\b\w+(?=\{)|\b\w+_(?:total|seconds|bytes|depth|info|count|bucket|service_ready|fds|hash)\b/g,
          ) ?? [],
      )
      assert.ok(used.length > 30)
      assert.deepEqual(
        used.filter(
          name => !exported.has(name) && !exported.has(name.replace(/_(bucket|count)$/, '')),
        ),
        [],
      )
    })
  })
}

test('callers cannot multiply the series by methods: labels name only what a route serves', async t => {
  const opsPort = await freePort()
  const service = await startAdminService('sqlite', { OPS_PORT: String(opsPort) })
  t.after(service.stop)
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
  const series = await scrape(opsPort)
  const labels = /^http_request_duration_seconds_count\{method="(.*?)",route="(.*?)"/
  const pairs = [...series.keys()].flatMap(name => {
    const [, method, route] = labels.exec(name) ?? []
    return method ? [`${method} ${route}`] : []
  })
  assert.deepEqual(
    [...new Set(pairs)].toSorted(),
    [
      ...['GET /admin/v1/audit', 'GET /admin/v1/users', `GET ${AUTH}/sessions`, 'GET /docs'],
      'GET /openapi.json',
      ...['GET /login', 'HEAD /admin/v1/audit', 'HEAD /admin/v1/users', `HEAD ${AUTH}/sessions`],
      ...[
        'HEAD /docs',
        'HEAD /login',
        'POST /admin/v1/users',
        'POST /login',
        `DELETE ${AUTH}/sessions`,
      ],
      'other other',
    ].toSorted(),
  )
})
