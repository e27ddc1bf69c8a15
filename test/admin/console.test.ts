// The work on people in the console: forms, refusals, lists, and the pages of people that have much of everything.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Operation } from '../../src/admin/operation.ts'
import { OPERATIONS } from '../../src/admin/operations.ts'
import { newUserWithApp } from '../support/authenticator.ts'
import { createCli } from '../support/cli.ts'
import {
  errorIn,
  listedIn,
  MARKUP,
  PEOPLE,
  passwordIn,
  startConsole,
  valueIn,
} from '../support/console.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { inParallel, own } from '../support/own.ts'
import {
  type Answer,
  countStatuses,
  createAddresses,
  PASSWORD,
  UNLIMITED,
} from '../support/service.ts'
import { DAY_MS } from '../support/session-client.ts'
import { costOf } from '../support/statement-cost.ts'
import { storedText } from '../support/stored-text.ts'
import { noticeIn, textIn, unescaped } from '../support/visitor.ts'

const CHANGED = /^Nothing was done: the person was changed after this page had been made,/
/** The addresses of all forms of a person. */
const FORMS = Object.values<Operation>(OPERATIONS).flatMap(
  ({ for: level, request, command, form }) =>
    level === null || request?.startsWith('GET ') || command === 'users add'
      ? []
      : [form?.path ?? command?.split(' ')[1] ?? ''],
)

for (const engine of ENGINES_BY_RUN) {
  describe(`the console on ${engine}`, async () => {
    const service = await own(startConsole(engine, UNLIMITED))
    const { users } = service.store
    const admin = await service.newStaff('admin')
    const newAddress = createAddresses()
    const cli = await own(createCli(service.database))
    const pathOf = ({ id }: { id: string }) => `${PEOPLE}/${id}`
    /** Sends the form of the person's page as it is now. */
    async function submit(person: { id: string }, form: string, fields = {}) {
      const page = await admin.get(pathOf(person))
      return admin.submit(page, `${pathOf(person)}/${form}`, fields)
    }
    const detailsOf = async ({ id }: { id: string }) => {
      const { email = '', name = '', role = '' } = (await users.findById(id)) ?? {}
      return { email, name, role }
    }

    test('each form of a person does what it says, and the next page says so with the focus', async () => {
      const { email } = await newUserWithApp(service, newAddress)
      const person = { email, id: (await users.findByEmail(email))?.id ?? '' }
      const path = pathOf(person)
      const verdict = (page: Answer) => textIn(page, 'verdict')?.replace(email, 'It')
      const can = /^It can log in\.$/
      const focused = /<p id="notice"[^>]* data-kind="information" tabindex="-1" autofocus>/
      const cases: [form: string, fields: object, notice: string, verdict: RegExp][] = [
        ['lock', { until: '2h' }, 'Locked. All sessions have ended.', /^It cannot .* locked by an/],
        ['unlock', {}, 'Unlocked.', can],
        ['lock', { until: '' }, 'Locked. All sessions have ended.', /an administrator\.$/],
        ['unlock', {}, 'Unlocked.', can],
        ['deactivate', {}, 'Deactivated. All sessions have ended.', /the user is not active\.$/],
        ['activate', {}, 'Logins are possible again.', can],
        ['details', { ...(await detailsOf(person)), name: 'Kay' }, 'The details are changed.', can],
        ['sessions/end', {}, 'All sessions have ended.', can],
        ['second-factor/reset', {}, 'Two-step login is reset, and all sessions have ended.', can],
      ]
      for (const [form, fields, notice, expected] of cases) {
        await service.login(email, PASSWORD)
        await fillSessions(service.database, person.id, 2, service.now())
        const shown = await admin.get(path)
        const isAsked = shown.text.includes(`href="${path}/${form}"`)
        const page = isAsked ? await admin.get(`${path}/${form}`) : shown
        const done = await admin.submit(page, `${path}/${form}`, { ...fields })
        assert.deepEqual([done.status, noticeIn(done)], [200, notice], form)
        assert.match(done.text, focused)
        assert.match(verdict(done) ?? '', expected)
        assert.match(done.text, /<li><time[^>]*>.*?by <bdi>new-user/s)
      }
    })

    test('fields that a form does not send stay as they are', async () => {
      const person = await service.newPerson()
      const fields = { csrf: await admin.csrf(), seen: await service.seenOf(person) }
      const path = `${pathOf(person)}/details`
      const { status } = await admin.sendForm(path, { ...fields, name: 'Another Name' })
      const user = await service.store.users.findById(person.id)
      assert.deepEqual([status, user?.name, user?.email], [303, 'Another Name', person.email])
    })

    test('a notice is shown only after a form of the console', async () => {
      const path = `${PEOPLE}?done=deleteUser`
      const { cookies } = admin
      for (const [headers, done, isShown] of [
        // A link to it may come from another site, by the page that asks again.
        [{ 'Sec-Fetch-Site': 'same-origin' }, '', false],
        [{ 'Sec-Fetch-Site': 'same-origin' }, 'deleteUser', true],
        [{ 'Sec-Fetch-Site': 'none' }, '', false],
        [{ 'Sec-Fetch-Site': 'none' }, 'deleteUser', true],
        [{ 'Sec-Fetch-Site': 'none' }, 'lockUser', false],
      ] as const) {
        cookies.delete('__Host-done')
        if (done) cookies.set('__Host-done', done)
        const notice = noticeIn(await admin.get(path, headers))
        assert.equal(notice, isShown ? 'The person is deleted.' : undefined)
      }
      assert.equal(noticeIn(await admin.get(`${PEOPLE}?done=constructor`)), undefined)
    })

    test('a temporary password is shown once, is good for a new one, and a reload gives none', async () => {
      const person = await service.newPerson()
      const page = await admin.get(pathOf(person))
      const given = await admin.submit(page, `${pathOf(person)}/temporary`, { valid: '24h' })
      assert.equal(given.headers['cache-control'], 'no-store')
      const password = passwordIn(given) ?? ''
      assert.match(password, /^[\da-z]{4}(-[\da-z]{4}){4}$/)
      assert.match(given.text, /<h1 tabindex="-1" autofocus>Temporary password/)
      assert.match(given.text, /Open <strong>login\.example\.com\/login<\/strong>/)
      const login = await service.login(person.email, password)
      assert.equal(login.json.error.code, 'PASSWORD_CHANGE_REQUIRED')
      const reloaded = await admin.submit(page, `${pathOf(person)}/temporary`, { valid: '24h' })
      assert.equal(reloaded.status, 409)
      assert.match(noticeIn(reloaded) ?? '', CHANGED)
      assert.equal(passwordIn(reloaded), undefined)
      for (const path of [pathOf(person), PEOPLE, '/console/history']) {
        assert.ok(!(await admin.get(path)).text.includes(password))
      }
      const stored = await storedText(service.database)
      assert.ok(!stored.includes(password) && !service.logText().includes(password))
    })

    test('a password that a form has besides is not in the answer', async () => {
      const person = await service.newPerson()
      const fields = { until: '2h', password: PASSWORD, temporaryUntil: '2030-01-01' }
      const done = await submit(person, 'lock', fields)
      assert.equal(noticeIn(done), 'Locked. All sessions have ended.')
      const refused = await submit(await service.newPerson(), 'lock', { ...fields, until: 'x' })
      assert.equal(refused.status, 400)
      for (const { text } of [done, refused]) assert.ok(!text.includes(PASSWORD))
    })

    test('a person is added with a temporary password, and a refusal keeps what was typed', async () => {
      const page = await admin.get(`${PEOPLE}/new?email=kim%40example.com`)
      assert.equal(valueIn(page, 'addUser-email'), 'kim@example.com')
      assert.equal(valueIn(page, 'addUser-valid'), '72h')
      const fields = { email: 'kim@example.com', name: 'Kim', role: '', valid: '24h' }
      for (const [wrong, status, field, error] of [
        [{ email: '' }, 400, 'email', /^Fill this in\.$/],
        [{ email: 'kim' }, 400, 'email', /does not have the form name@domain/],
        [{ email: admin.email.toUpperCase() }, 409, 'email', /^There is already a user new-user/],
        [{ name: '' }, 400, 'name', /^Fill this in\.$/],
        [{ role: 'r'.repeat(51) }, 400, 'role', /51 characters/],
        [{ valid: '1m' }, 400, 'valid', /1h to 30d/],
      ] as const) {
        const typed = { ...fields, ...wrong }
        const refused = await admin.submit(page, PEOPLE, typed)
        assert.equal(refused.status, status, field)
        assert.match(errorIn(refused, `addUser-${field}`), error)
        for (const name of ['email', 'name', 'role'] as const) {
          assert.equal(valueIn(refused, `addUser-${name}`), typed[name])
        }
      }
      const added = await admin.submit(page, PEOPLE, fields)
      assert.equal((await service.login(fields.email, passwordIn(added))).status, 403)
      assert.equal((await users.findByEmail(fields.email))?.role, 'user')
      const again = await admin.submit(page, PEOPLE, fields)
      assert.equal(again.status, 409)
      assert.equal(errorIn(again, 'addUser-email'), 'There is already a user kim@example.com.')
    })

    test('details that cannot be used are refused at their field, with what was typed', async () => {
      const [person, other] = [await service.newPerson(), await service.newPerson()]
      const details = await detailsOf(person)
      for (const [wrong, status, error] of [
        [{ email: other.email }, 409, `There is already a user ${other.email}.`],
        [{ name: ' ' }, 400, 'name must not be empty.'],
        [{ role: '' }, 400, 'role must not be empty.'],
      ] as const) {
        const typed = { ...details, name: 'Typed', ...wrong }
        const refused = await submit(person, 'details', typed)
        assert.deepEqual([refused.status, noticeIn(refused)], [status, error])
        for (const name of ['email', 'name', 'role'] as const) {
          const [id, isWrong] = [`changeUser-${name}`, name in wrong]
          assert.equal(errorIn(refused, id), isWrong ? error : '')
          assert.match(refused.text, new RegExp(`id="${id}"[^>]* aria-invalid="${isWrong}"`))
          assert.equal(valueIn(refused, id), typed[name])
        }
      }
      assert.deepEqual(await detailsOf(person), details)
      const unchanged = await submit(person, 'details', details)
      assert.match(noticeIn(unchanged) ?? '', /^There is nothing to change/)
    })

    test('a deletion needs the email of the person', async () => {
      const person = await service.newPerson()
      const path = `${pathOf(person)}/delete`
      const question = await admin.get(path)
      assert.equal(textIn(question, 'email'), undefined)
      for (const email of ['', 'new-user', admin.email, MARKUP]) {
        const refused = await admin.submit(question, path, { email })
        assert.equal(refused.status, 400)
        assert.equal(errorIn(refused, 'email'), 'This is not the email of the person.')
        assert.equal(valueIn(refused, 'email'), email)
      }
      assert.ok(await users.findById(person.id))
      const done = await admin.submit(question, path, { email: ` ${person.email.toUpperCase()}` })
      assert.equal(noticeIn(done), 'The person is deleted.')
      assert.equal(await users.findById(person.id), null)
      assert.equal((await admin.get(pathOf(person))).status, 404)
      assert.equal((await admin.submit(question, path, { email: person.email })).status, 404)
    })

    test('a form of another site, or without the token of its session, changes nothing', async () => {
      const person = await service.newPerson()
      const other = await service.newStaff('admin')
      const [csrf, seen] = [await admin.csrf(), await service.seenOf(person)]
      const good = { csrf, seen, email: person.email, name: 'A', until: '2h' }
      const send = (path: string, site: string | null, fields: object) =>
        admin.send('POST', path, site === null ? {} : { 'Sec-Fetch-Site': site }, fields)
      const before = await service.changesBy(admin)
      for (const form of [...FORMS.map(name => `${pathOf(person)}/${name}`), PEOPLE]) {
        for (const [site, fields] of [
          ['cross-site', good],
          ['same-site', good],
          ['none', good],
          [null, good],
          ['same-origin', { ...good, csrf: '' }],
          ['same-origin', { ...good, csrf: await other.csrf() }],
          ['same-origin', { ...good, csrf: `${csrf}x` }],
        ] as const) {
          const { status, text } = await send(form, site, fields)
          assert.equal(status, 403, form)
          assert.match(text, /^<!doctype html>/)
        }
      }
      assert.deepEqual(await service.changesBy(admin), before)
      assert.equal(await service.seenOf(person), seen)
      assert.equal((await send(`${pathOf(person)}/lock`, 'same-origin', good)).status, 303)
    })

    test('without the state that was seen, nothing is done, and the page shows what another did', async () => {
      const person = await service.newPerson()
      const other = await service.newStaff('admin')
      await fillSessions(service.database, person.id, 1, service.now())
      const session = await service.sessionOf(person)
      const csrf = await admin.csrf()
      const stale = await service.seenOf(person)
      const theirs = await other.get(pathOf(person))
      const details = { ...(await detailsOf(person)), name: 'Theirs' }
      await other.submit(theirs, `${pathOf(person)}/details`, details)
      const before = await detailsOf(person)
      const seenNow = await service.seenOf(person)
      for (const seen of [undefined, '', 'yesterday', '0', stale, '9999-12-31T00:00:00.000Z']) {
        for (const form of FORMS) {
          const typed = { email: person.email, name: 'Mine', role: 'user', until: '7d' }
          const path = `${pathOf(person)}/${form.replace(':session', session)}`
          const fields = { csrf, ...(seen !== undefined && { seen }), ...typed }
          const refused = await admin.post(path, fields)
          assert.equal(refused.status, 409, `${form} ${seen}`)
          assert.match(noticeIn(refused) ?? '', CHANGED)
          assert.equal(passwordIn(refused), undefined)
          assert.match(refused.text, /name <bdi>Test User → Theirs<\/bdi>/)
          assert.ok(refused.text.includes(`by <bdi>${other.email}</bdi>`))
          if (form === 'details') assert.equal(valueIn(refused, 'changeUser-name'), 'Mine')
          if (form === 'lock') assert.equal(valueIn(refused, 'lockUser-until'), '7d')
        }
      }
      assert.deepEqual(await detailsOf(person), before)
      assert.equal(await service.seenOf(person), seenNow)
      assert.equal(await service.store.sessions.countLive(person.id, service.now()), 1)
    })

    test('of changes at the same time that have seen the same, exactly one is made', async () => {
      const other = await service.newStaff('owner')
      for (const [form, fieldsOf, status] of [
        ['temporary', () => ({ valid: '24h' }), 200],
        ['details', i => ({ name: `Name ${i}`, role: 'user' }), 303],
        ['deactivate', () => ({}), 303],
      ] as [string, (i: number) => object, number][]) {
        const person = await service.newPerson()
        const seen = await service.seenOf(person)
        const tokens = [await admin.csrf(), await other.csrf()]
        const answers = await inParallel(20, i => {
          const fields = { csrf: tokens[i % 2], seen, email: person.email, ...fieldsOf(i) }
          return [admin, other][i % 2]?.sendForm(`${pathOf(person)}/${form}`, fields)
        })
        const given = answers.filter(answer => answer !== undefined)
        assert.deepEqual(countStatuses(given), { [status]: 1, 409: 19 })
        for (const password of given.map(passwordIn).filter(text => text !== undefined)) {
          const { json } = await service.login(person.email, password)
          assert.equal(json.error.code, 'PASSWORD_CHANGE_REQUIRED')
        }
        const events = await service.database.rows(`select event_id from audit_actors
          join audit_events on id = event_id where target_id = '${person.id}'`)
        assert.equal(events.length, 1)
      }
    })

    test('markup stays what was typed, wherever it is', async () => {
      const email = `"'><b>&amp;@example.com`
      const page = await admin.get(`${PEOPLE}/new`)
      const fields = { email, name: MARKUP, role: MARKUP, valid: '24h' }
      const pages = [await admin.submit(page, PEOPLE, fields)]
      const { id = '' } = (await users.findByEmail(email)) ?? {}
      const path = pathOf({ id })
      await service.database.rows(`update users set temporary_until = null where id = '${id}'`)
      await service.call({
        headers: { 'Sec-Fetch-Site': 'same-origin', 'User-Agent': MARKUP },
        body: { email, password: passwordIn(pages[0] ?? page) },
      })
      const query = encodeURIComponent(MARKUP)
      for (const [at, field] of [
        [`${PEOPLE}?search=${query}&role=${query}`, 'search'],
        [`${PEOPLE}?role=${query}`, 'role'],
        [`${PEOPLE}/new?email=${query}&name=${query}`, 'addUser-email'],
        [`/console/history?target=${query}`, 'target'],
        [`/console/history?target=${encodeURIComponent(email)}`, null],
        [`${path}?client=${query}`, 'client'],
        [path, 'changeUser-role'],
        [`${path}/delete`, null],
      ] as const) {
        const shown = await admin.get(at)
        if (field) assert.equal(valueIn(shown, field), MARKUP, at)
        pages.push(shown)
      }
      assert.ok(listedIn(pages[1] ?? page).includes(email))
      for (const { text } of pages) {
        assert.doesNotMatch(text, /<img src=x|<b>&amp;|[^"]"'>/)
        assert.ok(unescaped(text).includes('<img src=x') || unescaped(text).includes(email))
      }
    })

    test('an address of a client says whether a login from there must wait; another text is refused', async () => {
      const person = await service.newPerson()
      const shown = await admin.get(`${pathOf(person)}?client=203.0.113.7`)
      assert.equal(textIn(shown, 'verdict'), `From 203.0.113.7, ${person.email} can log in.`)
      assert.equal(valueIn(shown, 'client'), '203.0.113.7')
      const refused = await admin.get(`${pathOf(person)}?client=203.0.113`)
      assert.equal(refused.status, 400)
      assert.match(errorIn(refused, 'client'), /^This is no IP address/)
      assert.equal(valueIn(refused, 'client'), '203.0.113')
    })

    test('people are found by what is asked for, as by the command and the API', async () => {
      const ofState = async (name: string, change: string) => {
        const email = `${name}@found.example`
        await service.addUser(email, { name: `Found ${name}` })
        await service.database.rows(`update users set ${change} where email = '${email}'`)
        return email
      }
      const at = (days: number) => new Date(service.now().getTime() + days * DAY_MS).toISOString()
      const long = `created_at = '${at(-200)}'`
      const all = [
        await ofState('active', `role = 'editor', last_login_at = '${at(-1)}', ${long}`),
        await ofState('dormant', `last_login_at = '${at(-91)}', ${long}`),
        await ofState('inactive', 'is_active = false'),
        await ofState('locked', `locked_by = 'administrator', locked_until = '${at(1)}'`),
        await ofState('never', long),
        await ofState('waiting', `locked_by = 'throttle', locked_until = '${at(1 / 144)}'`),
      ]
      await newUserWithApp(service, newAddress, all[0])
      const only = (...names: string[]) =>
        all.filter(email => names.some(it => email.startsWith(it)))
      for (const [console, api, expected] of [
        ['', '', all],
        ['role=editor', 'role=editor', only('active')],
        ['state=active', 'state=active', only('active', 'dormant', 'never')],
        ['state=inactive', 'state=inactive', only('inactive')],
        ['state=locked', 'state=locked', only('locked')],
        ['state=waiting', 'state=waiting', only('waiting')],
        ['second-factor=any', 'secondFactor=any', only('active')],
        ['second-factor=none&role=editor', 'secondFactor=none&role=editor', []],
        ['dormant=90d', 'dormant=90d', only('dormant', 'never')],
        ['dormant=365d', 'dormant=365d', []],
        ['dormant=', '', all],
      ] as const) {
        const shown = await admin.get(`${PEOPLE}?search=%40FOUND&${console}`)
        assert.deepEqual(listedIn(shown), expected, console)
        if (expected.length === 0) assert.match(shown.text, /There are no such people</)
        const { json } = await service.admin('GET', `/users?search=%40found&${api}`)
        assert.deepEqual(
          json.data.users.map(({ email }) => email),
          expected,
        )
      }
      const byName = await admin.get(`${PEOPLE}?search=found+never`)
      assert.deepEqual(listedIn(byName), only('never'))
      const args = ['users', 'list', '--search', '@found', '--dormant', '90d', '--json']
      const listed: { email: string }[] = JSON.parse((await cli.run(args)).stdout)
      assert.deepEqual(
        listed.map(({ email }) => email),
        only('dormant', 'never'),
      )
    })

    test('what cannot be looked for is refused at its field', async () => {
      for (const [path, id, error] of [
        [`${PEOPLE}?state=asleep`, 'state', /is one of/],
        [`${PEOPLE}?second-factor=totp`, 'second-factor', /is one of/],
        [`${PEOPLE}?dormant=long`, 'dormant', /takes a time such as/],
        [`${PEOPLE}?dormant=90d&search=${'s'.repeat(255)}`, 'search', /255 characters/],
        [`${PEOPLE}?search=%00`, 'search', /control characters/],
        [`/console/history?since=never`, 'since', /takes a time such as/],
        [`/console/history?target=${'t'.repeat(255)}`, 'target', /255 characters/],
        [`/console/history?before=x`, null, /takes the id of an event/],
        [`${PEOPLE}?after=${'a'.repeat(255)}`, null, /too long/],
      ] as const) {
        const { status, ...page } = await admin.get(path)
        assert.equal(status, 400, path)
        if (id) assert.match(errorIn({ status, ...page }, id), error)
        assert.match(noticeIn({ status, ...page }) ?? '', error)
        assert.doesNotMatch(page.text, /<table/)
      }
    })

    test('a whole email leads to its person; an unknown one can be added', async () => {
      const person = await service.newPerson()
      const search = (email: string) => `${PEOPLE}?search=${encodeURIComponent(email)}`
      const { status, headers } = await admin.get(search(` ${person.email.toUpperCase()} `))
      assert.deepEqual([status, headers.location], [303, pathOf(person)])
      const unknown = await admin.get(search('unknown@example.com'))
      assert.match(unknown.text, /There is no person with the email .*unknown<wbr>@example\.com/)
      const [, add = ''] = /href="(\/console\/people\/new\?[^"]*)"/.exec(unknown.text) ?? []
      assert.equal(valueIn(await admin.get(add), 'addUser-email'), 'unknown@example.com')
      const helper = await service.newStaff('help desk')
      assert.doesNotMatch((await helper.get(search('unknown@example.com'))).text, /people\/new/)
    })

    test('the next page keeps what is looked for', async () => {
      const many = Array.from({ length: 60 }, (_, i) => `p${String(10 + i)}@paged.example`)
      for (const email of many) await service.addUser(email)
      const person = await service.newPerson()
      const details = await detailsOf(person)
      const names = many.map((_, i) => `Name ${i}`)
      for (const name of names) await submit(person, 'details', { ...details, name })
      const target = new URLSearchParams({ target: person.email })
      const NAMES = /Details changed<\/strong>: name <bdi>[^<]* → ([^<]*)<\/bdi>/g
      const namesIn = ({ text }: Answer) => [...text.matchAll(NAMES)].map(([, name = '']) => name)
      for (const [path, itemsIn, expected, pages] of [
        [`${PEOPLE}?search=paged&role=user&second-factor=none`, listedIn, many, 3],
        [`/console/history?${target}&since=7d`, namesIn, names.toReversed(), 3],
      ] as const) {
        const found: string[][] = []
        let next: string | undefined = path
        while (next) {
          assert.ok(next.startsWith(path))
          const page = await admin.get(next)
          found.push(itemsIn(page))
          const [, link] = /<a rel="next" href="([^"]*)"/.exec(page.text) ?? []
          next = link && unescaped(link)
        }
        assert.deepEqual([found.length, found.flat()], [pages, expected])
      }
    })
  })
}

describe('the page of a person with much of everything, on postgres', async () => {
  const service = await own(startConsole('postgres', UNLIMITED))

  test('it costs as many statements as that of a person with little, and every session can be reached', async () => {
    const admin = await service.newStaff('admin')
    const name = `${'ل'.repeat(60)} <i>"&'</i> ${'x'.repeat(25)}`.slice(0, 100)
    const [little, much] = [await service.newPerson(), await service.newPerson()]
    await service.database.rows(
      `update users set name = '${name.replaceAll("'", "''")}' where id = '${much.id}'`,
    )
    for (const [{ id }, sessions, devices] of [
      [little, 1, 1],
      [much, 1_000, 100],
    ] as const) {
      await fillSessions(service.database, id, sessions, service.now())
      await service.database.rows(`insert into devices (id, user_id, token, created_at,
          last_used_at, expires_at, user_agent)
        select gen_random_uuid(), '${id}', md5(i::text) || md5('${id}' || i), now(), now(),
          now() + interval '1 day', '' from generate_series(1, ${devices}) i`)
    }
    // The use of a cookie is stored once a minute.
    await admin.get(PEOPLE)
    const costs: number[] = []
    for (const { id } of [little, much]) {
      const { statements } = await costOf(() => admin.get(`${PEOPLE}/${id}`))
      costs.push(statements)
    }
    assert.equal(costs[1], costs[0])
    assert.ok(Number(costs[0]) <= 12, String(costs))

    const reached: string[] = []
    let next: string | undefined = `${PEOPLE}/${much.id}`
    while (next) {
      const page = await admin.get(next)
      assert.ok(page.text.length < 100_000)
      assert.match(page.text, /100 known/)
      assert.ok(unescaped(page.text).includes(`<h1><bdi>${name}</bdi></h1>`))
      const ids = [...page.text.matchAll(/sessions\/([\da-f-]{36})\/end"/g)].map(
        ([, id = '']) => id,
      )
      assert.equal(ids.length, 10)
      reached.push(...ids)
      next = /<a href="([^"#]*)#sessions">Older/.exec(page.text)?.[1]
    }
    const stored = await service.database.rows(
      `select id from sessions where user_id = '${much.id}' order by created_at desc`,
    )
    assert.deepEqual(
      reached,
      stored.map(({ id }) => id),
    )
  })
})
