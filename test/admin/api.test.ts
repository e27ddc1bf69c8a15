// The admin API does what its routes say, on both engines, records every change, and refuses hostile input: bytes that no
// client sends, and values that no field takes.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { ADMIN_ROUTES } from '../../src/admin/api/app.ts'
import { CASES, type Case, HOST, JSON_TYPE, lines } from '../http/hostile-cases.ts'
import { ADMIN, startAdminService } from '../support/admin-service.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { faultsIn, own } from '../support/own.ts'
import { answersOf, createRawClient, outsideEnvelope, receive } from '../support/raw-connection.ts'
import { LOGIN, loggedBy, PASSWORD, TEST_COST } from '../support/service.ts'

const BY = { kind: 'token', name: 'registration', host: '127.0.0.1' }
const EMAIL = 'target@example.com'
/** Statuses that the protocol decides, the same on both ports. */
const OF_PROTOCOL = [413, 415, 417, 431]
const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000'
const ODD_ID = '00000000-0000-4000-8000-00000000000a'

for (const engine of ENGINES_BY_RUN) {
  describe(`admin API on ${engine}`, async () => {
    const service = await own(startAdminService(engine))
    const { admin, login } = service
    await service.addUser(EMAIL)
    const client = await createRawClient({ url: service.adminUrl, dataDir: service.dataDir })
    after(() => {
      assert.deepEqual(faultsIn(service), [])
      for (const secret of [service.write, service.read, PASSWORD, '$2b$']) {
        assert.ok(!service.logText().includes(secret))
      }
    })

    const lastEvent = async (target: string) => {
      const { json } = await admin('GET', `/audit?target=${encodeURIComponent(target)}&limit=1`)
      return json.data.events[0]
    }

    test('a user is added once, and can log in', async () => {
      const email = 'ann@example.com'
      const body = { email: ' Ann@Example.com', name: 'Ann' }
      const added = await admin('POST', '/users', { ...body, password: PASSWORD })
      assert.equal(added.status, 201)
      const user = added.json.data
      assert.deepEqual([user.email, user.role], [email, 'user'])
      assert.ok(!added.text.includes('$2'))
      assert.equal((await login(email, PASSWORD)).status, 200)

      const { passwordHash = '' } = (await service.store.users.findByEmail(email)) ?? {}
      const answers: string[] = []
      for (const secret of [
        { password: PASSWORD },
        { password: 'another password' },
        { passwordHash },
        { passwordHash: passwordHash.replace(/.$/, last => (last === '.' ? 'O' : '.')) },
      ]) {
        const taken = await admin('POST', '/users', { ...body, ...secret })
        assert.deepEqual([taken.status, taken.json.error.code], [409, 'EMAIL_TAKEN'])
        answers.push(taken.text)
      }
      assert.equal(new Set(answers).size, 1, 'no answer tells whether the password is right')
      assert.equal((await login(email, PASSWORD)).status, 200)
      assert.partialDeepStrictEqual(
        { ...(await lastEvent(email)) },
        { action: 'user.added', targetId: user.id, by: BY },
      )
    })

    test('a user is added with a hash of another system, of each prefix', async () => {
      const hash = await bcrypt.hash(PASSWORD, TEST_COST)
      for (const prefix of ['$2a', '$2b', '$2y']) {
        const email = `hash${prefix.slice(1)}@example.com`
        const passwordHash = hash.replace('$2b', prefix)
        const body = { email, name: 'Bob', role: 'editor', passwordHash }
        assert.equal((await admin('POST', '/users', body)).status, 201)
        assert.equal((await login(email, PASSWORD)).status, 200)
      }
    })

    test('a user is named by its email, percent-encoded or not, in any case, or by its id', async () => {
      const longest = `${'語'.repeat(242)}@example.com`
      for (const email of [longest, "o'neil+a/b%c#d?e@example.com"]) {
        const body = { email, name: 'Odd', password: PASSWORD }
        const { id } = (await admin('POST', '/users', body)).json.data
        for (const name of [email, email.toUpperCase(), id, id.toUpperCase()]) {
          const path = `/users/${encodeURIComponent(name)}/lock`
          const { status, json } = await admin('PUT', path, { until: '2990-01-31T12:00' })
          assert.deepEqual([status, json.data.until], [200, '2990-01-31T12:00:00.000Z'], name)
        }
        for (const name of [
          ...[encodeURIComponent(encodeURIComponent(email)), `${'a'.repeat(250)}@example.com`],
          ...['nothing', 'a@b@c', '%00', 'ann%00@example.com', '%EF%BF%BD@example.com', UNKNOWN_ID],
        ]) {
          const answer = await admin('PUT', `/users/${name}/lock`)
          assert.deepEqual([answer.status, answer.json.error.code], [404, 'NOT_FOUND'], name)
        }
        assert.equal((await admin('DELETE', `/users/${id}`)).status, 200)
        assert.equal((await admin('DELETE', `/users/${id}`)).status, 404)
      }
    })

    test('a weak password is refused unless the administrator allows it, and that is recorded', async () => {
      const email = 'weak@example.com'
      const add = (secret: object) => admin('POST', '/users', { email, name: 'Weak', ...secret })
      const { status, json } = await add({ password: 'sunshine' })
      const { code, fields, reason, message } = json.error
      assert.deepEqual([status, code, fields], [400, 'INVALID_REQUEST', ['password']])
      const advice = /^too_common: .*, or send "allowWeak": true with a "write" token\.$/
      assert.match(`${reason}: ${message}`, advice)
      assert.equal((await add({ password: 'sunshine', allowWeak: true })).status, 201)
      const after = { name: 'Weak', role: 'user', allowWeak: true }
      assert.deepEqual((await lastEvent(email))?.after, after)

      const set = (secret: object) => admin('PUT', `/users/${email}/password`, secret)
      assert.equal((await set({ password: 'Weak@Example.com' })).json.error.reason, 'personal')
      const short = await set({ password: 'seven77', allowWeak: true })
      assert.match(short.json.error.message, /fewer than 8 .* longer one\.$/)
      assert.equal((await login(email, 'sunshine')).status, 200)
      assert.equal((await set({ password: 'password', allowWeak: true })).status, 200)
      const event = await lastEvent(email)
      assert.deepEqual([event?.action, event?.after], ['password.set', { allowWeak: true }])
      assert.equal((await login(email, 'password')).status, 200)
    })

    test('a user gets another email, name and role, once', async () => {
      const email = await service.newUser()
      const { user } = (await login(email, PASSWORD)).json.data
      const change = { email: 'Moved@example.com', name: 'Moved', role: 'editor', isActive: true }
      const changed = await admin('PATCH', `/users/${email}`, change)
      assert.equal(changed.status, 200)
      const expected = { ...change, id: user.id, email: 'moved@example.com' }
      assert.partialDeepStrictEqual({ ...changed.json.data.user }, expected)
      // A repetition by the id changes nothing; the old email names no user any more.
      assert.equal((await admin('PATCH', `/users/${user.id}`, change)).status, 200)
      assert.equal((await admin('PATCH', `/users/${email}`, change)).status, 404)
      const taken = await admin('PATCH', `/users/${user.id}`, { email: 'ann@example.com' })
      assert.equal(taken.status, 409)
      const { events } = (await admin('GET', `/audit?target=${expected.email}`)).json.data
      assert.equal(events.filter(({ action }) => action === 'user.changed').length, 1)
    })

    test('the answer to a change is what is stored, also of a user that waits', async () => {
      for (const { email: newName, ...change } of [
        { email: 'freed' },
        { email: 'freed-active', isActive: true },
        { email: 'freed-inactive', name: 'N', isActive: false },
        { isActive: true },
        { role: 'editor' },
      ]) {
        const user = await service.newUser()
        for (let i = 0; i < 21; i++) await login(user, 'wrong', `127.3.1.${1 + (i % 5)}`)
        const { state } = (await admin('GET', `/users/${user}`)).json.data
        assert.equal(state, 'waiting')
        const email = newName ? `${newName}@example.com` : user
        const changed = await admin('PATCH', `/users/${user}`, { email, ...change })
        const { data } = (await admin('GET', `/users/${email}`)).json
        assert.partialDeepStrictEqual({ ...data }, { ...changed.json.data.user })
      }
    })

    test('users are listed by pages and filters, without their hashes', async () => {
      // Inserted by SQL, in a form that no login looks up.
      await service.database.rows(`insert into users (id, email, password_hash, name, role, created_at, updated_at)
        select '${ODD_ID}', ' Odd Form+@x', password_hash, name, role, created_at,
          updated_at from users where email = 'ann@example.com'`)
      const seen: string[] = []
      for (let after: string | number | null = ''; after !== null; ) {
        const answer = await admin('GET', `/users?limit=1&after=${encodeURIComponent(after)}`)
        assert.ok(!/\$2[aby]|hash/i.test(answer.text.replaceAll('hash2', '')), answer.text)
        const { users, next } = answer.json.data
        seen.push(...users.map(({ email }) => email))
        after = next
      }
      assert.ok(seen.includes(' Odd Form+@x'))
      assert.equal(new Set(seen).size, seen.length)
      assert.equal(seen.length, await service.store.users.count())
      const odd = await admin('GET', `/users/${ODD_ID}`)
      assert.equal(odd.json.data.verdict.kind, 'unreachable-email')
      assert.equal((await admin('DELETE', `/users/${ODD_ID}`)).status, 200)
      const found = (await admin('GET', '/users?search=ANN%40ex&role=user&state=active')).json.data
      assert.deepEqual(
        found.users.map(({ email }) => email),
        ['ann@example.com'],
      )
    })

    test('a user is shown with the reason why it cannot log in, and the wait can be ended', async () => {
      const email = await service.newUser()
      const from = '127.7.7.7'
      const verdictOf = async (query = '') =>
        (await admin('GET', `/users/${email}${query}`)).json.data.verdict.kind
      assert.equal(await verdictOf(`?client=${from}`), 'can-log-in')
      for (let i = 0; i < 6; i++) await login(email, 'wrong password', from)
      assert.equal(await verdictOf(`?client=${from}`), 'must-wait')
      assert.equal(await verdictOf(), 'can-log-in')
      const shown = await admin('GET', `/throttle?email=${email}&client=${from}`)
      assert.equal(shown.json.data.scopes[0]?.failures, 5)
      const { clients } = (await admin('GET', '/throttle?top=100')).json.data
      const digest = shown.json.data.scopes[2]?.digest
      assert.ok(clients.some(entry => entry.digest === digest))

      for (const cleared of [true, false]) {
        const { data } = (await admin('DELETE', `/throttle?email=${email}`)).json
        assert.deepEqual(data, { cleared })
      }
      assert.equal((await login(email, PASSWORD, from)).status, 200)
      const event = await lastEvent(email)
      assert.deepEqual([event?.action, event?.by], ['throttle.cleared', BY])
      assert.equal((await admin('DELETE', `/throttle?client=${from}`)).status, 200)
    })

    test('sessions are listed by pages, and ended one by one or all at once', async () => {
      const email = await service.newUser()
      for (let i = 0; i < 3; i++) await login(email, PASSWORD)
      const path = `/users/${email}/sessions`
      const first = (await admin('GET', `${path}?limit=2`)).json.data
      const second = (await admin('GET', `${path}?limit=2&after=${first.next}`)).json.data
      assert.deepEqual([first.sessions.length, second.sessions.length, second.next], [2, 1, null])
      const id = second.sessions[0]?.id
      assert.equal((await admin('DELETE', `/sessions/${id}`)).status, 200)
      assert.equal((await admin('DELETE', `/sessions/${id}`)).status, 404)
      for (const ended of [2, 0]) {
        assert.equal((await admin('DELETE', path)).json.data.ended, ended)
      }
      assert.deepEqual((await admin('GET', path)).json.data, { sessions: [], next: null })
    })

    test('the audit is read by pages, by target and since a moment', async () => {
      // The clock of PostgreSQL may be behind.
      const since = new Date(service.now().getTime() - 1_000).toISOString()
      const email = 'history@example.com'
      await admin('POST', '/users', { email, name: 'H', password: PASSWORD })
      for (const isActive of [false, false, true]) {
        await admin('PATCH', `/users/${email}`, { isActive })
      }
      const actions: string[] = []
      for (let before: string | number | null = ''; before !== null; ) {
        const query: string = `target=${email}&since=${since}&limit=2${before && `&before=${before}`}`
        const { events, next } = (await admin('GET', `/audit?${query}`)).json.data
        actions.push(...events.map(({ action }) => action))
        before = next
      }
      assert.deepEqual(actions, ['user.activated', 'user.deactivated', 'user.added'])
      const future = await admin('GET', '/audit?since=2099-01-01')
      assert.deepEqual(future.json.data, { events: [], next: null })
    })

    test('each change is logged with its token, route and target, the email; no other field, which may hold a misspelt password', async () => {
      const email = await service.newUser()
      const lines = await loggedBy(service, async () => {
        await admin('DELETE', `/users/${email}`)
        await admin('DELETE', `/users/${email}`)
        await admin('GET', `/users/${email}/sessions`)
        await admin('POST', '/users', { user: PASSWORD, id: PASSWORD, email: 'x@example.com' })
        for (const email of [PASSWORD, 'P@ssw0rd!']) await admin('POST', '/users', { email })
      })
      assert.deepEqual(
        lines.slice(0, 2).map(({ time: _, requestId, userAgent, ...line }) => line),
        [{ status: 200 }, { status: 404, code: 'NOT_FOUND' }].map(answered => ({
          ...{ level: 'info', ip: '127.0.0.1', event: 'admin.request', tokenName: 'registration' },
          ...{ method: 'DELETE', route: '/admin/v1/users/:user', ...answered, target: email },
        })),
      )
      assert.deepEqual(
        lines.slice(2).map(({ event, target }) => `${event} ${target}`),
        ['x@example.com', '(no email)', '(no email)'].map(target => `admin.request ${target}`),
      )
    })

    const send = (method: string, path: string, body?: unknown) => {
      const type = body === undefined ? {} : { 'Content-Type': 'application/json' }
      // Node's client sends the body of this method only with its length.
      const isSized = method === 'DELETE' && typeof body === 'string'
      const headers = isSized ? { ...type, 'Content-Length': body.length } : type
      return admin(method, path, body, { headers })
    }
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
        const body = JSON.stringify({ isActive: false })
        const access = [HOST, JSON_TYPE, `Authorization: Bearer ${service.write}`]
        const head = [`PATCH ${ADMIN}/users/${EMAIL} HTTP/1.1`, ...access]
        const sent = lines(...head, `Content-Length: ${body.length}`) + body.slice(0, -1)
        const answers = await client.exchange(sent)
        assert.deepEqual(
          answers.map(({ status }) => status),
          [408],
        )
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
      // Node's client sends no address with a space.
      const QUERIES = [
        ...['dryRun=true', 'dryRun', 'DRYRUN=1', '=', '=1', '__proto__=1', '__proto__[a]=1'],
        ...['constructor=x', 'hasOwnProperty=x', '%64ryRun=1', 'dry%00Run=1', 'a?b=1', '%FF=1'],
        ...['limit[]=1', 'limit%5B%5D=1', 'Limit=1', ' limit=1', 'user=a', 'id=a', ';limit=1'],
        `${'x=1&'.repeat(1_000)}x=1`,
        `${'&'.repeat(1_000)}x=1`,
        `x=${'y'.repeat(8_000)}`,
      ].map(query => query.replaceAll(' ', '%20'))
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
          assert.equal((await send(method, path, wrong)).status, 400, `${path} ${wrong}`)
        }
      }
      assert.deepEqual(await service.store.users.findByEmail(email), before)
      assert.equal(await service.store.users.findByEmail('dry@example.com'), null)
      for (const query of ['?', '?&', '?&&']) {
        assert.equal((await send('DELETE', `/users/${email}/sessions${query}`)).status, 200, query)
      }
      assert.equal((await send('DELETE', `/users/${email}/sessions`, '{}')).status, 200)
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

    test('a value of the wrong form or type is told to be just that', async () => {
      for (const [method, path, body, said] of [
        ['DELETE', '/sessions/abc', undefined, 'id must match format "uuid".'],
        ['POST', '/users', { email: 5, name: 'N' }, 'email must be a string.'],
        ['PATCH', `/users/${EMAIL}`, { isActive: 'no' }, 'isActive must be true or false.'],
        ['GET', '/users?search=a&search=b', undefined, 'search is given twice.'],
        ['GET', '/users?state=x', undefined, 'state is one of active,inactive,locked,waiting.'],
      ] as const) {
        const { status, json } = await send(method, path, body)
        assert.deepEqual([status, json.error.message], [400, said])
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
