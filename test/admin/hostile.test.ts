// Hostile input on the admin port: bytes that no client sends, and values that no field takes.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { ADMIN_ROUTES } from '../../src/admin/api/app.ts'
import { CASES, type Case, HOST, JSON_TYPE, lines } from '../http/hostile-cases.ts'
import { ADMIN, startAdminService } from '../support/admin-service.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { faultsIn, own } from '../support/own.ts'
import { answersOf, createRawClient, outsideEnvelope, receive } from '../support/raw-connection.ts'
import { LOGIN, PASSWORD, TEST_COST } from '../support/service.ts'

const EMAIL = 'ann@example.com'
/** Statuses that the protocol decides, the same on both ports. */
const OF_PROTOCOL = [413, 415, 417, 431]

const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000'
/** Node's client sends no address with a space. */
const encodeSpaces = (query: string) => query.replaceAll(' ', '%20')

for (const engine of ENGINES_BY_RUN) {
  describe(`hostile input to the admin API on ${engine}`, async () => {
    const service = await own(startAdminService(engine))
    await service.addUser(EMAIL)
    const client = await createRawClient({ url: service.adminUrl, dataDir: service.dataDir })
    after(() => assert.deepEqual(faultsIn(service), []))
    const send = (method: string, path: string, body?: unknown) =>
      service.admin(method, path, body, {
        headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      })
    /** Node's client sends the body of this method only with its length. */
    const sendDelete = (path: string, body: string) =>
      service.admin('DELETE', path, body, {
        headers: { 'Content-Type': 'application/json', 'Content-Length': body.length },
      })
    // At the same time: each waits for a time limit of the service. The store is not reached.
    describe('over time', { concurrency: true }, () => {
      test('bytes that no client sends are refused as on the public port', async () => {
        const check = async ([name, bytes, expected]: Case) => {
          // Latin-1 keeps every byte.
          const text = Buffer.from(bytes as Buffer).toString('latin1')
          const access = `${HOST}\r\nAuthorization: Bearer ${service.write}`
          const adapted = text.replaceAll(LOGIN, `${ADMIN}/users`).replace(HOST, access)
          const socket = await client.open()
          // Its side stays open: a token is checked asynchronously, and Node drops the request of a client that ends.
          socket.write(Buffer.from(adapted, 'latin1'))
          const answers = answersOf(await receive(socket))
          const [answer] = answers
          assert.ok(answer && answers.length === 1, name)
          assert.ok(answer.status < 500, `${name}: ${answer.status}`)
          if (OF_PROTOCOL.includes(expected)) assert.equal(answer.status, expected, name)
          if (text.startsWith('HEAD')) return
          if (answer.status >= 300) assert.equal(outsideEnvelope(answer), null, name)
        }
        await Promise.all(CASES.map(check))
      })

      test('a body that arrives too slowly gets 408, and a change is not made', async () => {
        const socket = await client.open()
        const body = JSON.stringify({ isActive: false })
        socket.write(
          lines(
            `PATCH ${ADMIN}/users/${EMAIL} HTTP/1.1`,
            HOST,
            JSON_TYPE,
            `Content-Length: ${body.length}`,
            `Authorization: Bearer ${service.write}`,
          ) + body.slice(0, -1),
        )
        const statuses = answersOf(await receive(socket)).map(({ status }) => status)
        assert.deepEqual(statuses, [408])
        assert.equal((await service.store.users.findByEmail(EMAIL))?.isActive, true)
      })
    })

    test('wrong bodies get 400, and the field is named', async () => {
      const user = { email: 'new@example.com', name: 'New', password: PASSWORD }
      const hash = await bcrypt.hash(PASSWORD, TEST_COST)
      /** Values of one field, beside valid ones of the others. */
      const VALUES: Record<string, unknown[]> = {
        email: [
          ...[undefined, 'no-at', 'a\0@example.com', '\ud800@example.com', 'a\u200b@example.com'],
          ...[['a@example.com'], { toString: 'a@example.com' }, `${'a'.repeat(250)}@example.com`],
        ],
        name: ['', 'a\0b', '\udc00', 'x'.repeat(101), null],
        role: ['x'.repeat(51), 5],
        password: [undefined, 'short', 'x'.repeat(73), '\ud800'.repeat(10), 12345678],
        allowWeak: ['true'],
        passwordHash: [
          ...[PASSWORD, hash.slice(0, -1), `$2b$04$${'a'.repeat(53)}`, hash.replace('$2b', '$2x')],
          ...['$03$', '$05$'].map(cost => hash.replace('$04$', cost)),
        ],
      }
      const UNTIL = [
        ...['tomorrow', '2030-02-30', 5, '2020-01-01', '9999-12-31T23:59:59-10:00'],
        ...['+275760-09-13T00:00:00.001Z', '0h', '2', '2H', '2 h', '-2h', '1.5h', '2w', '100000d'],
        ...['h', '2h30m'],
      ]
      const path = `/users/${EMAIL}`
      type Wrong = [method: string, path: string, body: unknown, field: string | null]
      const WRONG: Wrong[] = [
        ...[undefined, [], 'x', 5, null, true].map(
          (body): Wrong => ['POST', '/users', JSON.stringify(body), null],
        ),
        ...Object.entries(VALUES).flatMap(([field, values]) =>
          values.map((value): Wrong => ['POST', '/users', { ...user, [field]: value }, field]),
        ),
        ['POST', '/users', { ...user, isAdmin: true }, null],
        ['POST', '/users', '{"email":"a@example.com","__proto__":{"name":"x"}}', null],
        ['PUT', `${path}/password`, {}, 'password'],
        ...UNTIL.map((until): Wrong => ['PUT', `${path}/lock`, { until }, 'until']),
        ['PATCH', path, { isActive: 'false' }, 'isActive'],
        ['PATCH', path, { isactive: false }, null],
        ['PATCH', path, {}, null],
        ['PATCH', path, { email: 'b' }, 'email'],
        ['PATCH', path, { name: '' }, 'name'],
        ['PATCH', path, { name: 'N\u202eew' }, 'name'],
        ['PATCH', path, { role: 'a\0' }, 'role'],
        ['PATCH', path, { role: 'admin', isActive: 0 }, 'isActive'],
        ['PATCH', path, { password: PASSWORD }, null],
      ]
      for (const [method, path, body, field] of WRONG) {
        const { status, json } = await send(method, path, body)
        const about = `${method} ${path} ${JSON.stringify(body)}`
        assert.equal(status, 400, about)
        assert.deepEqual(json.error.fields, field === null ? undefined : [field], about)
      }
      assert.equal(await service.store.users.findByEmail('new@example.com'), null)
    })

    test('every route refuses words of the query and fields of the body that it does not know, and changes nothing', async () => {
      const email = await service.newUser()
      const before = await service.store.users.findByEmail(email)
      const QUERIES = [
        ...['dryRun=true', 'dryRun', 'DRYRUN=1', '=', '=1', '__proto__=1', '__proto__[a]=1'],
        ...['constructor=x', 'hasOwnProperty=x', '%64ryRun=1', 'dry%00Run=1', 'a?b=1', '%FF=1'],
        ...['limit[]=1', 'limit%5B%5D=1', 'Limit=1', ' limit=1', 'user=a', 'id=a', ';limit=1'],
        `${'x=1&'.repeat(1_000)}x=1`,
        `${'&'.repeat(1_000)}x=1`,
        `x=${'y'.repeat(8_000)}`,
      ].map(encodeSpaces)
      const BODIES: Record<string, object> = {
        POST: { email: 'dry@example.com', name: 'Dry', password: PASSWORD },
        PATCH: { role: 'owner' },
        PUT: { passwordHash: before?.passwordHash },
      }
      for (const [method, url] of ADMIN_ROUTES) {
        const path = url.replace(':user', email).replace(':id', UNKNOWN_ID).slice(ADMIN.length)
        const body = url.endsWith('/lock') ? undefined : BODIES[String(method)]
        for (const query of QUERIES) {
          const { status, json } = await send(String(method), `${path}?${query}`, body)
          assert.equal(status, 400, `${method} ${path}?${query.slice(0, 50)}`)
          assert.equal(json.error.code, 'INVALID_REQUEST')
        }
        if (method !== 'DELETE') continue
        for (const wrong of ['{"dryRun":true}', '[]', 'true', '"x"', 'null']) {
          const { status } = await sendDelete(path, wrong)
          assert.equal(status, 400, `${method} ${path} ${wrong}`)
        }
      }
      assert.deepEqual(await service.store.users.findByEmail(email), before)
      assert.equal(await service.store.users.findByEmail('dry@example.com'), null)
      for (const query of ['?', '?&', '?&&']) {
        assert.equal((await send('DELETE', `/users/${email}/sessions${query}`)).status, 200, query)
      }
      assert.equal((await sendDelete(`/users/${email}/sessions`, '{}')).status, 200)
      assert.equal((await send('DELETE', `/users/${email}`)).status, 200)
    })

    test('wrong queries get 400', async () => {
      const QUERIES: Record<string, string[]> = {
        [`GET /users/${EMAIL}/sessions`]: [
          ...['limit=0', 'limit=101', 'limit=-1', 'limit=1e1', 'limit=', 'limit=1&limit=2'],
          ...['after=x', `after=${'0'.repeat(36)}`, 'after=%00', 'x=1', '__proto__=1'],
        ],
        'GET /audit': [
          ...['since=now', 'since=-1', 'since=%00'],
          ...['before=0', 'before=-1', 'before=9999999999999999'],
          ...['target=', 'target=%00', 'target=%ED%A0%80%00', `target=${'x'.repeat(9_000)}`],
          ...['toString=1', 'target=a&target=b'],
        ],
        'GET /users': [
          ...['limit=0', 'state=new', 'state=', 'role=%00', 'search=', 'search=%00', 'after=%00'],
          ...['%FF', '%C0%AF', '%ED%A0%80', '%', '%zz'].map(text => `search=${text}`),
          ...['role=%FF', 'client=127.0.0.1', 'email=a'],
          ...[`search=${'x'.repeat(255)}`, `after=${'x'.repeat(255)}`],
        ],
        [`GET /users/${EMAIL}`]: [
          ...['client=', 'client=x', 'client=1.2.3', 'client=127.0.0.1&client=::1'],
        ],
        'GET /throttle': ['top=0', 'top=1001', 'email=x', 'client=1', `top=1&email=${EMAIL}`],
        'DELETE /throttle': [
          ...['', 'email=', 'email=%FF@x.org', 'client=', `email=${EMAIL}&client=::1`, 'x=1'],
        ],
      }
      for (const [route, queries] of Object.entries(QUERIES)) {
        const [method = '', path = ''] = route.split(' ')
        for (const query of queries) {
          assert.equal((await send(method, `${path}?${query}`)).status, 400, `${route}?${query}`)
        }
      }
    })

    test('unusual paths get 400, 404 or 405', async () => {
      const PATHS = `/users// /users/% /users/%zz /users/%2e%2e/audit /users/a/b/c /users/..
        /users/%00/lock /sessions/x /devices/%00 /devices/__proto__`
      for (const path of [...PATHS.split(/\s+/), `/users/${'%E8%AA%9E'.repeat(400)}`]) {
        const { status } = await send('DELETE', path)
        assert.ok([400, 404, 405].includes(status), `${path}: ${status}`)
      }
    })
  })
}
