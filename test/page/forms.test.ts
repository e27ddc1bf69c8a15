// The pages as a browser without scripts uses them: forms, cookies, redirects.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { describe, test } from 'node:test'
import { wrapMethods } from '../../src/domain/operations.ts'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { INHERITED } from '../support/any-text.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { eventsOf } from '../support/own.ts'
import { type Answer, createAddresses, loggedBy, PASSWORD } from '../support/service.ts'
import { MINUTE_MS, ownSessions } from '../support/session-client.ts'
import {
  createVisitor,
  makeTemporary,
  NAVIGATION,
  noticeIn,
  refreshIn,
  textIn,
  unescaped,
} from '../support/visitor.ts'

const APP = 'https://app.example.com'
const CALLBACK = 'https://other.example.net/in'
const NEW_PASSWORD = 'seven green boats at noon'
const CHALLENGE = hash('sha256', 'v'.repeat(43), 'base64url')
const FORMS = [
  ...['/login', '/login/password', '/login/logout', '/login/sessions/others/end'],
  '/login/sessions/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55/end',
  ...['/login/second-factor', '/login/second-factor/recovery-codes'],
  '/login/second-factor/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55/remove',
]
const PLAIN = `/login?return_to=${encodeURIComponent(`${APP}/a?b=c&d`)}`
const CODE = `/login?return_to=${encodeURIComponent(`${CALLBACK}?x=1`)}&challenge=${CHALLENGE}`
const MARKUP = `"'><img src=x onerror=alert(1)>&amp;`

const isAccount = ({ text }: Answer) => text.includes('id="log-out"')
const errorsIn = (page: Answer) =>
  ['email', 'password', 'new-password'].map(name => textIn(page, `${name}-error`)).filter(Boolean)
const csrfIn = ({ text }: Answer) => /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? ''

for (const engine of ENGINES_BY_RUN) {
  describe(`the forms of the pages on ${engine}`, async () => {
    const env = { RETURN_TO_ORIGINS: APP, CODE_CALLBACKS: CALLBACK, CORS_ORIGINS: APP }
    /** What the service has read as lists. */
    const rowsRead: [name: string, rows: number][] = []
    const service = await ownSessions(engine, env, null, store =>
      wrapMethods(store, (name, operation) => async (...values) => {
        const result = await operation(...values)
        if (Array.isArray(result)) rowsRead.push([name, result.length])
        return result
      }),
    )
    const newAddress = createAddresses()
    const newVisitor = () => createVisitor(service, newAddress())

    async function loggedIn() {
      const email = await service.newUser()
      const visitor = newVisitor()
      const page = await visitor.logIn(email)
      assert.ok(isAccount(page), page.text)
      return { email, visitor, page }
    }

    test('a login leads to the account, with the events of any login', async () => {
      const email = await service.newUser()
      const visitor = newVisitor()
      const lines = await loggedBy(service, async () => {
        await visitor.logIn(email, 'wrong password')
        assert.ok(isAccount(await visitor.logIn(email)))
      })
      assert.deepEqual(eventsOf(lines), ['login.failed', 'login.succeeded'])
      const account = await visitor.get('/')
      assert.equal(textIn(account, 'user-email'), email)
      assert.equal(textIn(account, 'role'), undefined)
      assert.match(account.text, /This device/)
    })

    test('the account tells the last login, without its address once that was removed, and three failures since it', async () => {
      const { email, visitor } = await loggedIn()
      for (const failures of [2, 3]) {
        for (let i = 0; i < failures; i++) await service.login(email, 'wrong', newAddress())
        const again = await visitor.logIn(email)
        assert.match(again.text, /id="last-login".*Last login: .* · .* · 127\./)
        const warning = textIn(again, 'failures')
        assert.equal(warning?.includes('Change password'), failures === 3 || undefined)
      }
      await service.database.rows(`update users set last_login_ip = null,
        last_login_user_agent = null where email = '${email}'`)
      const later = await visitor.logIn(email)
      assert.match(later.text, /id="last-login"[^>]*>Last login: <time[^·]*<\/time><\/p>/)
    })

    test('the list of sessions has pages, and stays on one of them while its sessions are ended', async () => {
      const { email, visitor } = await loggedIn()
      const { id = '' } = (await service.store.users.findByEmail(email)) ?? {}
      await fillSessions(service.database, id, 45, new Date(service.now().getTime() - MINUTE_MS))
      const listed = ({ text }: Answer) =>
        [...text.matchAll(/<li id="session-([\da-f-]{36})"/g)].map(([, found]) => found)
      const linkIn = ({ text }: Answer, name: string) =>
        unescaped(new RegExp(`<a href="([^"]*)">${name}</a>`).exec(text)?.[1] ?? '')
      const first = await visitor.get(`${PLAIN}&lang=en&after=x`)
      assert.match(first.text, /This device.*<summary>Show 16 more<.*Older logins<.*<\/details>/s)
      assert.equal(linkIn(first, 'Newest logins'), '')
      const older = linkIn(first, 'Older logins')
      assert.match(older, /^\/login\?return_to=.*&lang=en&after=[\da-f-]{36}$/)
      const second = await visitor.get(older)
      assert.doesNotMatch(second.text, /This device|<details>/)
      const last = await visitor.get(linkIn(second, 'Older logins'))
      assert.equal(linkIn(last, 'Older logins'), '')
      assert.equal(linkIn(last, 'Newest logins'), `${PLAIN}&lang=en`)
      const pages = [first, second, last].map(listed)
      assert.deepEqual(
        pages.map(page => page.length),
        [21, 20, 5],
      )
      const stored = await service.database.rows(
        `select id from sessions where user_id = '${id}' order by created_at desc`,
      )
      assert.deepEqual(
        pages.flat(),
        stored.map(row => row.id),
      )

      // Also if the last session of the previous page has ended.
      const end = (page: Answer, which = 0) =>
        visitor.submit(page, `/login/sessions/${listed(page).at(which)}/end`)
      const ended = await end(await visitor.get('/login'), -1)
      assert.equal(noticeIn(ended), 'That device is logged out.')
      const inPlace = await end(await visitor.get(older.replace(/return_to=[^&]*&/, '')))
      assert.equal(noticeIn(inPlace), 'That device is logged out.')
      assert.deepEqual(listed(inPlace), [...listed(second).slice(1), listed(last)[0]])
      const alone = await visitor.submit(inPlace, '/login/sessions/others/end')
      assert.deepEqual(listed(alone), listed(first).slice(0, 1))
      for (const after of [listed(second)[3], 'x', crypto.randomUUID(), '', '__proto__']) {
        assert.deepEqual(listed(await visitor.get(`/login?after=${after}`)), listed(alone))
      }
    })

    test('the account reads and formats no more for 1,000 sessions than for those that it shows', async t => {
      const { email, visitor } = await loggedIn()
      const { id = '' } = (await service.store.users.findByEmail(email)) ?? {}
      await fillSessions(service.database, id, 999, service.now(), { tokensEach: 0 })
      const made = (['DateTimeFormat', 'NumberFormat', 'Collator'] as const).map(name => {
        const { mock } = t.mock.method(Intl, name)
        return mock
      })
      rowsRead.length = 0
      const page = await visitor.get('/login')
      assert.equal(page.text.match(/class="session"/g)?.length, 21)
      assert.ok(page.text.length < 30_000, `${page.text.length} characters`)
      assert.deepEqual(rowsRead, [['sessions.listLive', 21]])
      assert.equal((await newVisitor().logIn('absent@example.com', 'wrong')).status, 401)
      assert.deepEqual(
        made.map(({ calls }) => calls.length),
        [0, 0, 0],
      )
    })

    test('what was done is said after our own forms only: others could say it of nothing', async () => {
      const { email, visitor } = await loggedIn()
      for (let i = 0; i < 3; i++) await service.login(email, 'wrong', newAddress())
      await visitor.logIn(email)
      for (const done of ['changed', 'ended', 'others-ended', 'logged-in', 'logged-out']) {
        for (const site of ['none', 'same-site', 'cross-site', 'SAME-ORIGIN']) {
          const headers = { 'Sec-Fetch-Site': site }
          const opened = await visitor.get(`/login?done=${done}&again=1`, headers)
          assert.equal(noticeIn(opened), undefined, `${done} ${site}`)
          if (site !== 'cross-site') assert.ok(textIn(opened, 'failures'))
          const told = noticeIn(await newVisitor().get(`/login?done=${done}`, headers))
          if (site !== 'none') assert.equal(told, undefined)
        }
      }
      // Firefox follows the redirect of a form with `none`.
      const csrf = csrfIn(await visitor.get('/login'))
      await visitor.post('/login/sessions/others/end', { csrf })
      const followed = await visitor.get('/login?done=others-ended', { 'Sec-Fetch-Site': 'none' })
      assert.match(noticeIn(followed) ?? '', /All other devices/)
      // A site that sends its user back again and again does not get past the question, either.
      for (let i = 0; i < 3; i++) await visitor.get(PLAIN)
      const foreign = await visitor.get(`${PLAIN}&done=continue`, { 'Sec-Fetch-Site': 'same-site' })
      assert.equal(refreshIn(foreign), undefined)
    })

    test('every rejected login gets the same page, apart from the email', async () => {
      const [wrong, inactive] = [await service.newUser(), await service.newUser()]
      await byEmail(service.store).deactivate(inactive, changeAt(service.now()))
      const attempts = [
        [wrong, 'not the password'],
        [inactive, PASSWORD],
        ['absent@example.com', 'not the password'],
        ['no email', 'not the password'],
        [wrong, 'x'.repeat(100)],
      ] as const
      for (const path of ['/login', '/login/password']) {
        const pages = new Set<string>()
        for (const [email, password] of attempts) {
          const fields = { email, password, 'new-password': NEW_PASSWORD }
          const answer = await newVisitor().post(path, fields)
          assert.equal(answer.status, 401)
          assert.equal(noticeIn(answer), 'Incorrect email, password or code.')
          assert.match(answer.text, /<title>Error: /)
          assert.match(answer.text, /id="notice"[^>]* tabindex="-1" autofocus/)
          assert.ok(!answer.text.includes(password))
          pages.add(answer.text.replace(`value="${email}"`, ''))
        }
        assert.equal(pages.size, 1)
      }
    })

    test('a form is refused unless it says that it is of this site: our own have the origin "null"', async () => {
      const { email, visitor, page } = await loggedIn()
      const Cookie = [...visitor.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
      const change = { email, password: PASSWORD, 'new-password': NEW_PASSWORD }
      const form = { ...NAVIGATION, 'Content-Type': 'application/x-www-form-urlencoded', Cookie }
      const body = String(new URLSearchParams({ ...change, csrf: csrfIn(page) }))
      const hashes = await countHashes(async () => {
        for (const headers of [
          {},
          { 'Sec-Fetch-Site': 'none' },
          { 'Sec-Fetch-Site': 'same-site' },
          { 'Sec-Fetch-Site': 'cross-site' },
          { 'Sec-Fetch-Site': 'cross-site', Origin: APP },
          { 'Sec-Fetch-Site': 'same-site', Origin: APP },
          { 'Sec-Fetch-Site': 'SAME-ORIGIN' },
          { 'Sec-Fetch-Site': 'same-origin, same-origin' },
        ]) {
          for (const path of FORMS) {
            const answer = await service.call({ path, headers: { ...form, ...headers }, body })
            assert.equal(answer.status, 403, `${path} ${JSON.stringify(headers)}`)
            assert.match(noticeIn(answer) ?? '', /^This page was out of date/)
            assert.equal(answer.headers['set-cookie'], undefined)
          }
        }
      })
      assert.equal(hashes, 0)
      assert.ok(isAccount(await visitor.get('/login')))
      assert.ok(isAccount(await visitor.post('/login', change, { Origin: 'null' })))
    })

    test('a form of a logged-in user is refused without the CSRF token of the session', async () => {
      const { email, visitor } = await loggedIn()
      const other = await loggedIn()
      for (const path of FORMS.slice(1)) {
        for (const fields of [{}, { csrf: '' }, { csrf: 'x.y' }, { csrf: csrfIn(other.page) }]) {
          const change = { email, password: PASSWORD, 'new-password': NEW_PASSWORD }
          const answer = await visitor.post(path, { ...change, ...fields })
          assert.equal(answer.status, 403, path)
          assert.match(answer.headers['content-type'] ?? '', /^text\/html/)
        }
      }
      assert.ok(isAccount(await visitor.get('/login')))
    })

    test('one session is ended, then all others, then the own one', async () => {
      const { email, visitor } = await loggedIn()
      const others = [newVisitor(), newVisitor()]
      for (const other of others) await other.logIn(email)
      const stranger = await loggedIn()
      const account = await visitor.get('/login')
      const [, id = ''] = /action="(\/login\/sessions\/[\da-f-]{36}\/end)"/.exec(account.text) ?? []
      const [, foreign = ''] = /id="session-([\da-f-]{36})"/.exec(stranger.page.text) ?? []
      const lines = await loggedBy(service, async () => {
        const left = await visitor.submit(account, id)
        assert.equal(noticeIn(left), 'That device is logged out.')
        for (const path of [id, `/login/sessions/${foreign}/end`, '/login/sessions/x/end']) {
          await visitor.post(path, { csrf: csrfIn(account) })
        }
        const alone = await visitor.submit(left, '/login/sessions/others/end')
        assert.equal(noticeIn(alone), 'All other devices are logged out.')
        await visitor.submit(alone, '/login/logout')
      })
      // The counts of earlier refusals may be written at this moment. A refusal of this user would have a line first.
      const own = lines.filter(({ count }) => count === undefined)
      const told = own.map(({ event, reason }) => [event, reason])
      const expected = ['user', 'user', 'logout'].map(reason => ['session.ended', reason])
      assert.deepEqual(told, expected)
      assert.ok(isAccount(await stranger.visitor.get('/login')))
      for (const ended of [visitor, ...others]) assert.ok(!isAccount(await ended.get('/login')))
      assert.ok(!visitor.cookies.has('__Host-session'))
    })

    test('logging out says so, also with a session that has ended, or without any', async () => {
      const { email, visitor, page } = await loggedIn()
      await byEmail(service.store).endSessions(email, changeAt(service.now()))
      const said = 'You are logged out.'
      assert.equal(noticeIn(await visitor.submit(page, '/login/logout')), said)
      assert.equal(noticeIn(await newVisitor().post('/login/logout')), said)
      assert.equal((await visitor.get('/login/logout')).headers.location, '/login')
    })

    test('an idle session leads to the form with the email, whatever is clicked', async () => {
      const { email, visitor, page } = await loggedIn()
      const other = newVisitor()
      await other.logIn(email)
      service.advance(31 * MINUTE_MS)
      for (const shown of [
        await visitor.get('/login'),
        await visitor.submit(page, '/login/logout').then(() => other.get('/login')),
        await other.post('/login/sessions/others/end', {}).then(() => other.get('/login')),
      ]) {
        assert.equal(noticeIn(shown), 'Your session has ended. Please log in again.')
        assert.match(shown.text, new RegExp(`id="email" name="email" value="${email}"`))
      }
    })

    test('a missing field is refused at the field, without a hash', async () => {
      const noEmail = 'Enter an email address such as name@example.com.'
      const noPassword = 'Enter your password.'
      const short = 'Choose a password with at least 8 characters.'
      const CASES: [string, Record<string, string>, string[]][] = [
        ['/login', {}, [noEmail, noPassword]],
        ['/login', { email: 'a@b.c', password: '' }, [noPassword]],
        ['/login', { email: '  ', password: 'x' }, [noEmail]],
        ['/login/password', { email: 'a@b.c', password: 'x' }, [short]],
      ]
      const hashes = await countHashes(async () => {
        for (const [path, fields, errors] of CASES) {
          const answer = await newVisitor().post(path, fields)
          assert.equal(answer.status, 400)
          assert.deepEqual(errorsIn(answer), errors)
          assert.match(answer.text, /<title>Error: .*aria-invalid="true" autofocus/s)
        }
      })
      assert.equal(hashes, 0)
    })

    test('refusals are pages with their status and the typed email, and never JSON', async () => {
      const email = await service.newUser()
      const visitor = newVisitor()
      for (let i = 0; i < 5; i++) await visitor.logIn(email, 'not the password')
      const waiting = await visitor.logIn(email)
      assert.equal(waiting.status, 429)
      assert.equal(noticeIn(waiting), 'Too many attempts. You can try again in 15 minutes.')
      const seconds = waiting.headers['retry-after']
      assert.match(waiting.text, new RegExp(`data-wait="${seconds}"`))
      assert.match(waiting.text, new RegExp(`value="${email}"`))
      const inGerman = { 'Accept-Language': 'de', 'Sec-Fetch-Site': 'same-origin' }
      const german = await visitor.post('/login', { email, password: PASSWORD }, inGerman)
      assert.match(noticeIn(german) ?? '', /^Zu viele Versuche\. In 15 Minuten /)
      const form = { 'Content-Type': 'application/x-www-form-urlencoded' }
      for (const [headers, body, status] of [
        [{}, { email, password: PASSWORD }, 415],
        [{ 'Content-Type': 'text/plain' }, 'x', 415],
        [form, `email=${'x'.repeat(17_000)}`, 413],
        [{ ...form, 'Content-Encoding': 'gzip' }, 'x', 415],
      ] as const) {
        for (const path of FORMS) {
          const own = { 'Sec-Fetch-Site': 'same-origin', ...headers }
          const answer = await service.call({ path, headers: own, body })
          assert.equal(answer.status, status)
          assert.match(answer.headers['content-type'] ?? '', /^text\/html/)
          assert.match(answer.text, /<title>Error: /)
        }
      }
      await service.database.rows('alter table users rename to gone')
      const failed = await newVisitor().logIn(email)
      await service.database.rows('alter table gone rename to users')
      assert.equal(failed.status, 500)
      assert.match(noticeIn(failed) ?? '', /^Something went wrong on our side/)
      assert.match(failed.text, new RegExp(`value="${email}"`))
    })

    test('a change of the password ends other sessions; after it nothing advises a change', async () => {
      const { email, visitor, page } = await loggedIn()
      const other = newVisitor()
      await other.logIn(email)
      for (let i = 0; i < 3; i++) await service.login(email, 'wrong', newAddress())
      const form = await visitor.get('/login/password')
      const shown = new RegExp(`value="${email}"[^>]* autocomplete="username"[^>]* readonly`)
      assert.match(form.text, shown)
      assert.doesNotMatch(form.text, /need an account/)
      const wrong = { password: 'not the password', 'new-password': NEW_PASSWORD }
      const refused = await visitor.submit(form, '/login/password', { email, ...wrong })
      assert.equal(noticeIn(refused), 'Your current password is incorrect.')
      const right = { ...wrong, password: PASSWORD }
      const done = await visitor.submit(refused, '/login/password', { email, ...right })
      assert.match(noticeIn(done) ?? '', /^Your password is changed/)
      assert.equal(textIn(done, 'failures'), undefined)
      assert.ok(!isAccount(await other.get('/login')))
      // The page of the earlier session is out of date.
      assert.equal((await visitor.submit(page, '/login/logout')).status, 403)
    })

    test('the new password is judged by the user only after the current one is verified', async () => {
      const email = `quite.personal${newAddress()}@example.com`
      await service.addUser(email)
      const fields = { email, 'new-password': email.split('@')[0] ?? '' }
      const change = (password: string) =>
        newVisitor().post('/login/password', { ...fields, password })
      const guessed = await change('not the password')
      assert.equal(noticeIn(guessed), 'Incorrect email, password or code.')
      assert.deepEqual(errorsIn(guessed), [])
      assert.match(errorsIn(await change(PASSWORD))[0] ?? '', /^This password is too close to/)
      const common = { email, password: 'x', 'new-password': 'password' }
      const flawed = await newVisitor().post('/login/password', common)
      assert.match(errorsIn(flawed)[0] ?? '', /^Many people use this password/)
    })

    test('a temporary password is typed again, and replaced', async () => {
      const email = await service.newUser()
      await makeTemporary(service, email)
      const visitor = newVisitor()
      const asked = await visitor.logIn(email, PASSWORD, `${CODE}&prompt=login&lang=en`)
      assert.equal(asked.status, 403)
      assert.match(noticeIn(asked) ?? '', /^Your password is temporary/)
      assert.ok(!asked.text.includes(PASSWORD))
      const fields = { email, password: PASSWORD, 'new-password': NEW_PASSWORD }
      const done = await visitor.submit(asked, '/login/password', fields)
      assert.ok(refreshIn(done)?.startsWith(`${CALLBACK}?x=1&code=`))
      assert.equal(noticeIn(await visitor.get('/login')), undefined)
    })

    test('a browser that stores no cookie is told so', async () => {
      for (const site of ['same-origin', 'none']) {
        const headers = { 'Sec-Fetch-Site': site }
        const answer = await newVisitor().get('/login?done=logged-in', headers)
        assert.match(noticeIn(answer) ?? '', /did not store the cookie/)
      }
    })

    test('a name that every object inherits says nothing', async () => {
      const { visitor } = await loggedIn()
      for (const name of INHERITED) {
        for (const each of [visitor, newVisitor()]) {
          const query = new URLSearchParams({ done: name, lang: name, prompt: name, again: name })
          const answer = await each.get(`/login?${query}`)
          assert.deepEqual([answer.status, noticeIn(answer)], [200, undefined], name)
        }
      }
    })

    test('a login goes on there, and a user that is logged in goes on at once', async () => {
      const email = await service.newUser()
      const visitor = newVisitor()
      const form = await visitor.get(PLAIN)
      assert.equal(textIn(form, 'destination'), 'to continue to app.example.com')
      const fields = { email, password: PASSWORD }
      const wrong = await visitor.submit(form, '/login', { ...fields, password: 'not this' })
      assert.equal(textIn(wrong, 'destination'), 'to continue to app.example.com')
      const leaving = await visitor.submit(wrong, '/login', fields)
      assert.equal(refreshIn(leaving), `${APP}/a?b=c&d`)
      const link = /<a id="continue"[^>]* href="https:.*?\/a\?b=c&d" data-go>/
      assert.match(unescaped(leaving.text), link)
      assert.equal(refreshIn(await visitor.get(PLAIN)), `${APP}/a?b=c&d`)
    })

    test('prompt=login asks for the password once more, before a code is issued', async () => {
      const { email, visitor } = await loggedIn()
      const asked = await visitor.get(`${CODE}&prompt=login`)
      assert.equal(refreshIn(asked), undefined)
      const wrong = await visitor.submit(asked, '/login', { email, password: 'not this one' })
      assert.match(wrong.text, /prompt=login/)
      const leaving = await visitor.submit(wrong, '/login', { email, password: PASSWORD })
      assert.match(refreshIn(leaving) ?? '', /code=/)
    })

    test('no code is issued for what is loaded ahead, in a frame or by a script', async () => {
      const { visitor } = await loggedIn()
      const lines = await loggedBy(service, async () => {
        for (const headers of [
          { 'Sec-Purpose': 'prefetch' },
          { 'Sec-Purpose': 'prefetch;prerender' },
          { 'Sec-Fetch-Dest': 'iframe' },
          { 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' },
          { 'Sec-Fetch-Mode': '' },
        ]) {
          const page = await visitor.get(CODE, headers)
          assert.equal(refreshIn(page), undefined)
          assert.match(page.text, /<a id="continue"[^>]* href="\/login\?return_to=.*done=continue"/)
        }
      })
      assert.ok(!eventsOf(lines).includes('code.issued'))
    })

    test('an application that sends its user back again and again is not gone to again', async () => {
      const { visitor } = await loggedIn()
      for (const path of [PLAIN, CODE]) {
        visitor.cookies.delete('__Host-departures')
        for (let i = 0; i < 3; i++) assert.ok(refreshIn(await visitor.get(path)))
        const stayed = await visitor.get(path)
        assert.equal(refreshIn(stayed), undefined)
        assert.match(noticeIn(stayed) ?? '', /sent you back here/)
        const [, next = ''] = /<a id="continue"[^>]* href="([^"]*)"/.exec(stayed.text) ?? []
        if (path === CODE) assert.ok(refreshIn(await visitor.get(unescaped(next))))
      }
    })

    test('after a link on another site the page asks for itself, to get the cookies', async () => {
      const { visitor } = await loggedIn()
      const foreign = { 'Sec-Fetch-Site': 'cross-site' }
      const entered = await newVisitor().get(PLAIN, { 'Sec-Fetch-Site': 'none' })
      assert.match(refreshIn(entered) ?? '', /&again=1$/)
      const first = await visitor.get(PLAIN, foreign)
      const again = refreshIn(first) ?? ''
      assert.match(again, /^\/login\?return_to=.*&again=1$/)
      const own = { 'Sec-Fetch-Site': 'same-origin' }
      assert.equal(refreshIn(await visitor.get(again, own)), `${APP}/a?b=c&d`)
      assert.match((await newVisitor().get(again, foreign)).text, /id="password"/)
      const changing = await visitor.get('/login/password', foreign)
      assert.equal(refreshIn(changing), '/login/password?again=1')
      assert.equal(refreshIn(await visitor.get(`${PLAIN}&prompt=login`, foreign)), undefined)
    })

    test('an address that is not listed is refused in a sentence, and forgotten', async () => {
      const visitor = newVisitor()
      for (const [asked, said] of [
        ['https://evil.example/x', /^We cannot send you back to evil\.example:/],
        ['javascript:alert(1)', /^We cannot send you back to where you came from/],
        [`${APP}.evil.example`, /^We cannot send you back to app\.example\.com\.evil\.example:/],
      ] as const) {
        const page = await visitor.get(`/login?return_to=${encodeURIComponent(asked)}`)
        assert.match(noticeIn(page) ?? '', said)
        assert.doesNotMatch(page.text, /return_to/)
      }
    })

    test('markup in any value stays text', async () => {
      const email = `${MARKUP.replaceAll(' ', '')}@example.com`
      await service.addUser(email, { name: MARKUP })
      const visitor = newVisitor()
      const post = { 'Sec-Fetch-Site': 'same-origin', 'User-Agent': MARKUP }
      const account = await visitor.post('/login', { email, password: PASSWORD }, post)
      const query = encodeURIComponent(MARKUP)
      const returning = (to: string) => `/login?return_to=${encodeURIComponent(to)}`
      const pages = [
        account,
        await visitor.get('/login/password'),
        await newVisitor().post(`/login?lang=${query}`, { email: MARKUP, password: MARKUP }),
        await newVisitor().post('/login/password', { email: MARKUP, known: MARKUP, csrf: MARKUP }),
        await newVisitor().get(`/login?return_to=${query}&challenge=${query}&prompt=${query}`),
        await newVisitor().get(returning(`${APP}/${MARKUP}`)),
        await newVisitor().get(returning(`https://x/${MARKUP}`)),
        await visitor.get(returning(`${APP}/${MARKUP.replace(' ', '')}`)),
        await visitor.get(`/login?done=${query}&again=${query}`),
        await visitor.get(`/${query}`, { Accept: 'text/html' }),
      ]
      for (const { text } of pages) assert.doesNotMatch(text, /<img src=x|<img src="x|'>|&amp;/)
      assert.equal(textIn(account, 'name'), MARKUP)
      assert.match(unescaped(account.text), /<strong dir="auto">"'><img src=x onerror=alert\(1\)>&/)
    })
  })
}
