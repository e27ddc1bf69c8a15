// Sessions of the console: how they begin and end, and what they are good for.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { changeAt } from '../storage/fixtures.ts'
import {
  CONSOLE_COOKIE,
  createConsoleVisitor,
  listedIn,
  PEOPLE,
  startConsole,
  valueIn,
} from '../support/console.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { type Answer, PASSWORD, UNLIMITED } from '../support/service.ts'
import { cookie, DEVICE_COOKIE, MINUTE_MS, SESSION_COOKIE } from '../support/session-client.ts'
import { noticeIn, refreshIn } from '../support/visitor.ts'

const HOUR_MS = 60 * MINUTE_MS
const CROSS_SITE = { 'Sec-Fetch-Site': 'cross-site' }

const isPeople = ({ text }: Answer) => /<h1>People/.test(text)
const isLogin = ({ text }: Answer) => /action="\/login["?]/.test(text)

for (const engine of ENGINES_BY_RUN) {
  describe(`sessions of the console on ${engine}`, async () => {
    const service = await own(startConsole(engine, { ...UNLIMITED, SESSION_IDLE_MINUTES: '90' }))
    const { users, sessions } = service.store

    /** One browser at both ports: it sends the cookies of the host to both. */
    function browser() {
      let call = service.callConsole
      const visitor = createConsoleVisitor(request => call(request))
      const at = (next: typeof call) => () => {
        call = next
        return visitor
      }
      return { atConsole: at(service.callConsole), atPage: at(service.call) }
    }
    const live = async (email: string) => {
      const { id = '' } = (await users.findByEmail(email)) ?? {}
      return sessions.countLive(id, service.now())
    }

    test('the cookie is good for the console only, and that of the page for the page only, under either name', async () => {
      const { email } = await service.newPerson('admin')
      const { atConsole, atPage } = browser()
      await atPage().logIn(email)
      const answer = await atConsole().sendForm('/login', { email, password: PASSWORD })
      const lines = answer.headers['set-cookie'] ?? []
      const [line = ''] = lines.filter(each => each.startsWith(CONSOLE_COOKIE))
      assert.match(line, /^[^=]+=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict$/)
      assert.ok(!lines.some(each => each.startsWith(SESSION_COOKIE)))
      const { cookies } = atConsole()
      const [ofConsole = '', ofPage = ''] = [CONSOLE_COOKIE, SESSION_COOKIE].map(name =>
        cookies.get(name),
      )
      const isGood = async (call: typeof service.call, path: string, name: string, value: string) =>
        (await call({ method: 'GET', path, headers: cookie(value, name) })).status === 200
      for (const [name, value] of [
        [CONSOLE_COOKIE, ofConsole],
        [SESSION_COOKIE, ofConsole],
        [CONSOLE_COOKIE, ofPage],
        [SESSION_COOKIE, ofPage],
      ] as const) {
        const isOfConsole = name === CONSOLE_COOKIE && value === ofConsole
        assert.equal(await isGood(service.callConsole, PEOPLE, name, value), isOfConsole)
        const isOfPage = name === SESSION_COOKIE && value === ofPage
        const path = '/api/v1/auth/session'
        assert.equal(await isGood(service.call, path, name, value), isOfPage)
      }
    })

    test('a login there ends no session of the page, also none that was unused for hours, and shares the known device', async () => {
      const { email, id } = await service.newPerson('admin')
      const { atConsole, atPage } = browser()
      await atPage().logIn(email)
      const device = atPage().cookies.get(DEVICE_COOKIE)
      assert.ok(device)
      service.advance(5 * HOUR_MS)
      for (const count of [2, 2]) {
        assert.ok(isPeople(await atConsole().logIn(email)))
        assert.equal(await live(email), count, 'the second login replaces the first one')
      }
      const known = await service.store.devices.list(id, service.now())
      assert.equal(known.length, 1)
      // As a login at the page does.
      await atPage().logIn(email)
      assert.equal(await live(email), 2)
      assert.ok(isPeople(await atConsole().get(PEOPLE)))
    })

    test('it lasts 12 hours at most, and ends when it is unused for as long as one of the page', async () => {
      const [busy, idle] = [await service.newStaff('admin'), await service.newStaff('admin')]
      for (let hour = 1; hour < 12; hour++) {
        service.advance(HOUR_MS)
        assert.ok(isPeople(await busy.get(PEOPLE)), String(hour))
      }
      const { location } = (await idle.get(PEOPLE)).headers
      assert.equal(location, '/login?return_to=%2Fconsole%2Fpeople')
      const asked = await idle.get(String(location))
      assert.equal(valueIn(asked, 'email'), idle.email)
      service.advance(HOUR_MS + MINUTE_MS)
      assert.equal((await busy.get(PEOPLE)).status, 303)
    })

    test('it ends with a logout, and leads to the login', async () => {
      const staff = await service.newStaff('admin')
      const page = await staff.get(PEOPLE)
      const out = await staff.submit(page, '/login/logout')
      assert.ok(isLogin(out))
      assert.match(noticeIn(out) ?? '', /logged out/)
      assert.equal(await live(staff.email), 0)
      assert.equal((await staff.get(PEOPLE)).status, 303)
    })

    test('a user without a role there is told so, whatever the address, and gets to no page', async () => {
      const staff = await service.newStaff('editor')
      const csrf = await staff.csrf()
      const { id } = await service.newPerson()
      for (const answer of [
        await staff.open('/'),
        await staff.get('/console/history'),
        await staff.get(`${PEOPLE}/${id}`),
        await staff.get(`${PEOPLE}/new`),
        await staff.post(`${PEOPLE}/${id}/lock`, { csrf }),
      ]) {
        assert.equal(answer.status, 403)
        assert.match(answer.text, /<h1>Your role does not allow this<\/h1>/)
        assert.match(answer.text, /<strong dir="auto">editor<\/strong>.*help desk, admin, owner/)
        assert.doesNotMatch(answer.text, /aria-label="Console"/)
      }
    })

    test('what happens to a user holds at the next request', async () => {
      const inAnHour = () => new Date(service.now().getTime() + HOUR_MS)
      const change = () => changeAt(service.now())
      for (const [status, act] of [
        [303, (id: string) => users.deactivate(id, change())],
        [303, (id: string) => users.lock(id, inAnHour(), change())],
        [303, (id: string) => sessions.endAll(id, change())],
        [403, (id: string) => users.set(id, { role: 'editor' }, change())],
        [200, (id: string) => users.set(id, { role: 'owner' }, change())],
      ] as const) {
        const staff = await service.newStaff('help desk')
        const { id } = await service.newPerson()
        const [csrf, seen] = [await staff.csrf(), await service.seenOf({ id })]
        await act(staff.id)
        const page = await staff.get(PEOPLE)
        assert.equal(page.status, status)
        assert.equal(page.text.includes('Add a person'), status === 200)
        const posted = await staff.sendForm(`${PEOPLE}/${id}/lock`, { csrf, seen, until: '2h' })
        assert.equal(posted.status, status === 200 ? 303 : status)
        assert.equal((await service.seenOf({ id })) === seen, status !== 200)
      }
    })

    test('a link of another site arrives with its whole query, also after a login', async () => {
      const staff = await service.newStaff('help desk')
      const path = `${PEOPLE}?search=new&role=${encodeURIComponent('help desk')}`
      for (const visitor of [staff, service.visitor()]) {
        const asking = await visitor.get(path, CROSS_SITE)
        assert.deepEqual([asking.status, isPeople(asking)], [200, false])
        assert.equal(refreshIn(asking), `${path}&again=1`)
        let page = await visitor.open(`${path}&again=1`)
        if (isLogin(page)) {
          const fields = { email: staff.email, password: PASSWORD }
          await visitor.submit(page, '/login', fields)
          page = await visitor.open(`/login?return_to=${encodeURIComponent(path)}`)
        }
        assert.ok(listedIn(page).includes(staff.email))
        assert.deepEqual(
          ['search', 'role'].map(id => valueIn(page, id)),
          ['new', 'help desk'],
        )
      }
    })

    test('a login leads back to the page that needed it, and nowhere but into the console', async () => {
      const staff = await service.newStaff('admin')
      const history = '/console/history?target=a%40b.example&since=7d'
      const nowhere = [
        ...['//evil.example', 'https://evil.example/console/people', '/\\evil.example'],
        ...['/console/\\evil.example', '/console//evil.example/\t', '/consolex', '/login/logout'],
        ...['javascript:alert(1)', '/console/ ', '', '/console/\r\nX: y', ' /console/people'],
      ]
      for (const [asked, expected] of [
        ...[history, `${PEOPLE}/new`, '/console/nothing'].map(path => [path, path]),
        ...nowhere.map(path => [path, PEOPLE]),
      ]) {
        const path = `/login?${new URLSearchParams({ return_to: asked ?? '' })}`
        const { status, headers } = await staff.get(path)
        assert.deepEqual([status, headers.location], [303, expected], asked)
      }
      const visitor = service.visitor()
      const form = await visitor.open(history)
      assert.ok(isLogin(await visitor.submit(form, '/login', { email: staff.email })))
      const { email } = staff
      const done = await visitor.submit(form, '/login', { email, password: PASSWORD })
      assert.equal(done.headers.location, history)
    })

    test('deletion, reset of the second step and roles need a login of the last 15 minutes, and lead back', async t => {
      service.stopClock(t)
      const target = await service.newPerson()
      const staff = await service.newStaff('admin')
      const path = `${PEOPLE}/${target.id}`
      const fields = async () => ({
        ...{ csrf: await staff.csrf(), seen: await service.seenOf(target) },
        ...{ email: target.email, name: `Name ${await service.seenOf(target)}` },
      })
      const role = (name: string) => ({ role: name })
      const added = () => ({ email: `${crypto.randomUUID()}@example.com`, name: 'A' })
      const cases: [needs: boolean, at: string, more: () => object, back?: string][] = [
        [true, `${path}/delete`, () => ({})],
        [true, `${path}/second-factor/reset`, () => ({})],
        [true, `${path}/details`, () => role('editor')],
        [true, PEOPLE, () => ({ ...role('admin'), ...added() }), PEOPLE],
        [false, PEOPLE, () => ({ ...role('user'), ...added(), valid: '24h' })],
        [false, `${path}/details`, () => role('user')],
        [false, `${path}/lock`, () => ({ until: '2h' })],
        [false, `${path}/unlock`, () => ({})],
        [false, `${path}/temporary`, () => ({ valid: '24h' })],
        [false, `${path}/deactivate`, () => ({})],
        [false, `${path}/sessions/end`, () => ({})],
      ]
      service.advance(15 * MINUTE_MS - 30_000)
      for (const question of ['delete', 'second-factor/reset']) {
        assert.equal((await staff.get(`${path}/${question}`)).status, 200)
      }
      service.advance(MINUTE_MS)
      for (const [needs, at, more, back = path] of cases) {
        const before = await service.changesBy(staff)
        const answer = await staff.sendForm(at, { ...(await fields()), ...more() })
        const { location = '' } = answer.headers
        const login = `/login?${new URLSearchParams({ return_to: `${back}?done=again`, prompt: 'login' })}`
        assert.equal(location === login, needs, `${at} ${answer.status} ${location}`)
        assert.ok(needs || [200, 303].includes(answer.status), `${at} ${noticeIn(answer)}`)
        if (needs) assert.deepEqual(await service.changesBy(staff), before)
      }
      const form = await staff.open(`${path}/delete`)
      assert.ok(isLogin(form))
      assert.equal(valueIn(form, 'email'), staff.email)
      const back = await staff.submit(form, '/login', { email: staff.email, password: PASSWORD })
      assert.equal(back.headers.location, `${path}/delete`)
      const question = await staff.open(`${path}/delete`)
      assert.match(question.text, /Delete Name .* for good\?/)
      const done = await staff.submit(question, `${path}/delete`, { email: target.email })
      assert.equal(noticeIn(done), 'The person is deleted.')
    })

    test('the admin port has no other route of the public app, and tokens are good for the API only', async () => {
      const { cookies } = await service.newStaff('admin')
      const value = cookies.get(CONSOLE_COOKIE) ?? ''
      const ofConsole = { ...cookie(value, CONSOLE_COOKIE), 'Sec-Fetch-Site': 'same-origin' }
      const ofBrowser = { ...ofConsole, Accept: 'text/html' }
      const ofProgram = { Authorization: `Bearer ${service.write}` }
      const id = crypto.randomUUID()
      const posts = ['login', 'password', 'second-factor', 'refresh', 'logout', 'code']
      const gets = ['api/v1/auth/session', 'api/v1/auth/sessions', 'api/v1/auth/verify']
      const files = ['jwks.json', 'ended-sessions', 'change-password'].map(
        it => `.well-known/${it}`,
      )
      const api = ['admin/v1/users', 'admin/v1/audit', 'openapi.json', 'docs']
      const pages = ['console/people', 'console/history']
      const cases: [routes: string[], cookieAlone: number, browser: number, token: number][] = [
        [posts.map(name => `POST /api/v1/auth/${name}`), 401, 401, 404],
        [[`POST /login/sessions/${id}/end`, 'POST /login/sessions/others/end'], 401, 401, 404],
        [[...gets, ...files].map(path => `GET /${path}`), 401, 404, 404],
        [api.map(path => `GET /${path}`), 401, 401, 200],
        [pages.map(path => `GET /${path}`), 200, 200, 303],
      ]
      for (const [routes, ...expected] of cases) {
        for (const route of routes) {
          const [method = '', path = ''] = route.split(' ')
          const statuses: number[] = []
          for (const headers of [ofConsole, ofBrowser, ofProgram]) {
            statuses.push((await service.callConsole({ method, path, headers })).status)
          }
          assert.deepEqual(statuses, expected, route)
        }
      }
      for (const path of pages) {
        const call = { method: 'GET', path: `/${path}`, headers: ofConsole }
        assert.equal((await service.call(call)).status, 404)
      }
    })

    test('without roles there is no console', async () => {
      const other = await own(startConsole(engine, { ADMIN_ROLES: '', HELPDESK_ROLES: '' }))
      const visitor = other.visitor()
      for (const path of ['/', PEOPLE, '/console/history', '/login', '/login/password']) {
        assert.equal((await visitor.get(path)).status, 401, path)
        const headers = { Authorization: `Bearer ${other.write}` }
        assert.equal((await visitor.get(path, headers)).status, 404, path)
      }
      const { status } = await visitor.sendForm('/login', { email: 'a@b.example', password: 'c' })
      assert.equal(status, 401)
    })
  })
}
