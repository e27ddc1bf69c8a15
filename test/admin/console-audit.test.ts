// What the console leaves in audit and log: which person did what, from where, and that the list was read.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { AuditEvent } from '../../src/domain/audit.ts'
import { createCli } from '../support/cli.ts'
import { createConsoleVisitor, PEOPLE, ROLES, startConsole } from '../support/console.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import {
  type Call,
  createAddresses,
  createClient,
  loggedBy,
  PASSWORD,
  startTestService,
  UNLIMITED,
} from '../support/service.ts'
import { DAY_MS } from '../support/session-client.ts'

for (const engine of ENGINES_BY_RUN) {
  describe(`what people at the console leave behind, on ${engine}`, async () => {
    const env = { ...UNLIMITED, SESSION_IDLE_MINUTES: '1440' }
    const service = await own(startConsole(engine, env))
    const cli = await own(createCli(service.database))
    const newAddress = createAddresses()
    const auditOf = async (target: string) => {
      const query = new URLSearchParams({ target })
      const { events } = (await service.admin('GET', `/audit?${query}`)).json.data
      return events.map(({ by, ...event }) => ({ ...event, by: by as AuditEvent['by'] }))
    }

    test('an event names the person, its id, the email of that time and the address; after a deletion a pseudonym', async () => {
      const from = newAddress()
      const [dana, kate] = [await service.newStaff('admin', from), await service.newPerson()]
      const path = `${PEOPLE}/${kate.id}`
      const { id, email } = dana
      await dana.submit(await dana.get(path), `${path}/lock`, { until: '2h' })
      const [event] = await auditOf(kate.email)
      assert.partialDeepStrictEqual(event, { action: 'user.locked', targetId: kate.id })
      assert.deepEqual(event?.by, { kind: 'person', name: email, host: from, id })
      const listed = async () => (await cli.run(['audit', 'list', '--target', kate.email])).stdout
      assert.match(await listed(), new RegExp(`user\\.locked .* ${email} at ${from}\\n`))
      await service.admin('PATCH', `/users/${id}`, { email: 'other@example.com' })
      const actor = async () => (await auditOf(kate.email))[0]?.by
      assert.deepEqual(await actor(), event?.by)
      await service.admin('DELETE', `/users/${id}`)
      const { name = '', ...by } = (await actor()) ?? {}
      assert.match(name, /^deleted-user-[\da-f]{16}$/)
      assert.deepEqual(by, { kind: 'person', host: from })
      const rows = await service.database.rows('select * from audit_events')
      for (const trace of [email, id]) assert.ok(!JSON.stringify(rows).includes(trace))
      assert.ok((await listed()).includes(`${name} at ${from}`))
    })

    test('every visit is logged with the person and its target, and without what was looked for', async () => {
      const dana = await service.newStaff('help desk')
      const kate = await service.newPerson()
      const path = `${PEOPLE}/${kate.id}`
      const csrf = await dana.csrf()
      const route = `${PEOPLE}/:id`
      const target = kate.id
      for (const [method, at, expected] of [
        ['GET', `${PEOPLE}?search=sought&role=sought`, { route: PEOPLE, status: 200 }],
        ['GET', `${PEOPLE}?state=sought`, { route: PEOPLE, status: 400 }],
        ['GET', '/console/history?target=sought', { route: '/console/history', status: 200 }],
        ['GET', `${path}?client=203.0.113.99`, { route, status: 200, target }],
        ['POST', `${path}/sessions/end`, { route: `${route}/sessions/end`, status: 303, target }],
        ['POST', `${path}/temporary`, { route: `${route}/temporary`, status: 400, target }],
      ] as const) {
        const seen = await service.seenOf(kate)
        const lines = await loggedBy(service, () =>
          method === 'GET' ? dana.get(at) : dana.sendForm(at, { csrf, seen, valid: 'sought' }),
        )
        const facts = lines.map(({ level, time, requestId, ip, userAgent, ...line }) => line)
        const person = { personId: dana.id, person: dana.email }
        assert.deepEqual(facts, [{ event: 'admin.request', ...person, method, ...expected }])
      }
      assert.doesNotMatch(service.logText(), /sought|203\.0\.113\.99/)
    })

    test('a refusal is logged with its reason', async () => {
      for (const [role, path, reason] of [
        ['editor', PEOPLE, 'role'],
        ['help desk', `${PEOPLE}/new`, 'not-allowed'],
      ] as const) {
        const staff = await service.newStaff(role, newAddress())
        await staff.get(path)
        const ofStaff = service.logged().filter(({ personId }) => personId === staff.id)
        const [refused] = ofStaff.filter(({ event }) => event === 'admin.refused')
        assert.partialDeepStrictEqual(refused, { level: 'warn', reason })
      }
    })

    test('reading the list leaves one event per person or token and day, of all instances, and none of a command', async t => {
      const dana = await service.newStaff('admin')
      const port = String(await freePort())
      const second = await startTestService(engine, { ...ROLES, ...env, ADMIN_PORT: port }, service)
      const client = await createClient(`https://127.0.0.1:${port}`, service.dataDir)
      t.after(() => second.stop().finally(client.close))
      for (const each of [service, second]) each.stopClock(t)
      const there = createConsoleVisitor(client.call)
      const headers = { Authorization: `Bearer ${service.read}` }
      for (const days of [1, 2]) {
        await dana.logIn(dana.email)
        for (const [name, value] of dana.cookies) there.cookies.set(name, value)
        await inParallel(20, async i => {
          const [visitor, call] = i % 2 ? [dana, service.callConsole] : [there, client.call]
          const list = { method: 'GET', path: '/admin/v1/users', headers }
          assert.equal((await visitor.get(`${PEOPLE}?search=${i}`)).status, 200)
          assert.equal((await call(list)).status, 200)
        })
        assert.equal((await cli.run(['users', 'list'])).code, 0)
        const events = await auditOf('all users')
        assert.ok(events.every(({ action, by }) => action === 'users.read' && by.kind !== 'user'))
        for (const reader of [dana.email, 'back-office']) {
          assert.equal(events.filter(({ by }) => by.name === reader).length, days, reader)
        }
        for (const each of [service, second]) each.advance(DAY_MS)
      }
    })

    test('no user is shown if the event cannot be written', async () => {
      const dana = await service.newStaff('admin')
      const token = await service.addToken('new-reader', 'read')
      const rename = (from: string, to: string) =>
        service.database.rows(`alter table ${from} rename to ${to}`)
      // The list has been read today.
      await service.database.rows('delete from audit_actors')
      await rename('audit_events', 'hidden_events')
      const page = await dana.get(PEOPLE)
      const { status, text } = await service.admin('GET', '/users', undefined, { token })
      await rename('hidden_events', 'audit_events')
      assert.deepEqual([page.status, status], [500, 500])
      for (const shown of [page.text, text]) assert.doesNotMatch(shown, /new-user\d/)
    })
  })

  test(`behind a proxy, pages have the address of the person, and requests of the API come directly, on ${engine}`, async () => {
    const [proxy, person, another] = ['127.0.0.2', '203.0.113.7', '203.0.113.8']
    const service = await own(startConsole(engine, { ADMIN_TRUST_PROXY: proxy }))
    const forwarded = (ip: string, proto = 'https') => ({
      ...{ 'X-Forwarded-For': ip, 'X-Forwarded-Proto': proto },
    })
    const through = (ip: string, from = proxy) =>
      createConsoleVisitor((call: Call) => {
        const headers = { ...call.headers, ...forwarded(ip) }
        return service.callConsole({ ...call, headers, from })
      })
    const dana = { ...(await service.newPerson('admin')), ...through(person) }
    await dana.logIn(dana.email)
    const kate = await service.newPerson()
    const path = `${PEOPLE}/${kate.id}`
    await dana.submit(await dana.get(path), `${path}/lock`, { until: '2h' })
    const bearer = { headers: forwarded('198.51.100.1', 'http'), from: proxy }
    const unlocked = await service.admin('DELETE', `/users/${kate.id}/lock`, undefined, bearer)
    assert.equal(unlocked.status, 200)
    const { events } = (await service.admin('GET', `/audit?target=${kate.email}`)).json.data
    const hosts = events.slice(0, 2).map(({ by }) => Object(by).host)
    assert.deepEqual(hosts, [proxy, person])

    for (const status of [401, 401, 401, 401, 401, 429]) {
      assert.equal((await through(person).logIn(dana.email, 'wrong')).status, status)
    }
    const failed = service.logged().filter(({ event }) => event === 'login.failed')
    assert.deepEqual([...new Set(failed.map(({ ip }) => ip))], [person])
    assert.equal((await through(another).logIn(dana.email, PASSWORD)).status, 200)
    // A program beside the proxy cannot claim an address.
    assert.equal((await through(another, '127.0.0.3').logIn(dana.email, 'wrong')).status, 401)
    assert.equal(
      service.logged().findLast(({ event }) => event === 'login.failed')?.ip,
      '127.0.0.3',
    )
    const plain = { method: 'GET', path: PEOPLE, headers: forwarded(person, 'http'), from: proxy }
    assert.equal((await service.callConsole(plain)).status, 403)
  })
}
