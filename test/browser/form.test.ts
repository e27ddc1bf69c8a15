// The form in a browser: before, while and after it is sent.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LOGIN, PASSWORD } from '../service.ts'
import { assertKept, focused, openVisits, says } from './browser.ts'

describe('the form in a browser', () => {
  const visit = openVisits()
  test(
    'has labels, marks its fields for password managers, and focuses the first',
    visit(async ({ page, look }) => {
      const [email, password] = [
        page.getByLabel('Email'),
        page.getByLabel('Password', { exact: true }),
      ]
      await email.waitFor()
      assert.equal(await email.getAttribute('autocomplete'), 'username')
      assert.equal(await password.getAttribute('autocomplete'), 'current-password')
      assert.equal(await password.getAttribute('type'), 'password')
      assert.equal(await focused(page), 'email')
      assert.equal(await page.title(), 'Log in · Login Service')
      await look('form')
    }),
  )

  test(
    'shows errors at their fields, and sends nothing',
    visit(async ({ page, fill, calls, look }) => {
      for (const [email, password, wrong] of [
        ['', '', ['email', 'password']],
        ['kate', PASSWORD, ['email']],
        ['kate@', PASSWORD, ['email']],
        ['kate@example.com', 'seven77', ['password']],
        ['kate@exa mple.com', '', ['email', 'password']],
      ] as const) {
        await fill(email, password)
        await page.click('#log-in')
        for (const id of ['email', 'password']) {
          const isWrong = wrong.some(field => field === id)
          const field = page.locator(`#${id}`)
          assert.equal(await field.getAttribute('aria-invalid'), String(isWrong))
          assert.match(String(await field.getAttribute('aria-describedby')), RegExp(`${id}-error`))
          assert.equal((await page.innerText(`#${id}-error`)) !== '', isWrong)
        }
        assert.equal(await focused(page), wrong[0])
      }
      await look('field-errors')
      await page.fill('#email', 'kate@example.com')
      assert.equal(await page.innerText('#email-error'), '')
      assert.deepEqual(calls(), ['GET /session'])
    }),
  )

  test(
    'marks the fields that the service names',
    visit(
      async ({ page, fill }) => {
        await page.route(`**${LOGIN}`, route =>
          route.fulfill({
            status: 400,
            json: { error: { code: 'VALIDATION_ERROR', fields: ['password'] } },
          }),
        )
        await fill('kate@example.com')
        await page.click('#log-in')
        await page.locator('#password[aria-invalid=true]').waitFor()
        assert.equal(await page.getAttribute('#email', 'aria-invalid'), 'false')
        assert.equal(await focused(page), 'password')
      },
      { expected: [400] },
    ),
  )

  test(
    'waits 15 minutes after a 429 without Retry-After',
    visit(
      async ({ page, fill }) => {
        await page.route(`**${LOGIN}`, route => route.fulfill({ status: 429, body: 'no' }))
        await fill('kate@example.com')
        await page.click('#log-in')
        await page.getByText(/Wait 1[45]:/).waitFor()
      },
      { expected: [429] },
    ),
  )

  test(
    'repeats a login once after a 503, at the time that Retry-After names',
    visit(
      async ({ page, newUser, fill, calls }) => {
        const busy = { status: 503, headers: { 'Retry-After': '7' }, json: {} }
        await page.route(`**${LOGIN}`, route => route.fulfill(busy), { times: 1 })
        await fill(await newUser())
        await page.click('#log-in')
        await says(page, 'The service is busy. Trying again in a moment…')
        await page.clock.runFor(6_900)
        assert.equal(calls().filter(call => call === 'POST /login').length, 1)
        await page.clock.runFor(200)
        await page.locator('#account').waitFor()
        assert.equal(calls().filter(call => call === 'POST /login').length, 2)
      },
      {
        expected: [503],
        async prepare(page) {
          await page.clock.install()
          await page.clock.pauseAt(Date.now() + 3_600_000)
        },
      },
    ),
  )

  const FAILURES: [name: string, status: number, body: string, sentence: RegExp, calls: number][] =
    [
      ['a service that stays busy', 503, '{}', /is busy. Wait a minute/, 2],
      [
        'a fault',
        500,
        '{"error":{"code":"INTERNAL_ERROR"}}',
        /Try again. If it keeps happening/,
        1,
      ],
      [
        'a proxy that has no service',
        502,
        '<h1>Bad gateway</h1>',
        /Try again. If it keeps happening/,
        1,
      ],
      ['an answer that breaks off', 200, '{"success":tr', /Check your connection/, 1],
      ['a field that the page does not have', 400, '{"error":{"fields":["x"]}}', /Try again/, 1],
    ]
  for (const [name, status, body, sentence, calls] of FAILURES) {
    test(
      `says what to do about ${name}, and keeps the input`,
      visit(
        async visited => {
          const { page, fill } = visited
          const headers = { 'Retry-After': '0' }
          await page.route(`**${LOGIN}`, route => route.fulfill({ status, body, headers }))
          await fill('kate@example.com')
          await page.click('#log-in')
          await says(page, sentence)
          await assertKept(page, 'kate@example.com')
          assert.equal(visited.calls().filter(call => call === 'POST /login').length, calls)
          if (status === 503) await visited.look('still-busy')
        },
        { expected: [status] },
      ),
    )
  }

  test(
    'says that the service cannot be reached, and logs in when the network is back',
    visit(
      async ({ page, context, newUser, fill, look }) => {
        const email = await newUser()
        await fill(email)
        await context.setOffline(true)
        await page.click('#log-in')
        await says(page, /cannot be reached/)
        await look('offline')
        await context.setOffline(false)
        // The next request fails while it is under way.
        await page.route(`**${LOGIN}`, route => route.abort('connectionreset'), { times: 1 })
        await page.click('#log-in')
        await page.locator('#log-in[aria-busy=false]').waitFor()
        await says(page, /cannot be reached/)
        await assertKept(page, email)
        await page.click('#log-in')
        await page.locator('#account').waitFor()
      },
      { expected: ['net::ERR_INTERNET_DISCONNECTED', 'net::ERR_CONNECTION_RESET'] },
    ),
  )

  test(
    'shows the password on demand, and hides it when it is sent',
    visit(async ({ page, fill, look }) => {
      const reveal = page.getByRole('button', { name: 'Show password' })
      await fill('absent@example.com', 'visible password')
      await reveal.click()
      assert.equal(await reveal.getAttribute('aria-pressed'), 'true')
      assert.equal(await page.getAttribute('#password', 'type'), 'text')
      await look('password-shown')
      await page.click('#log-in')
      assert.equal(await page.getAttribute('#password', 'type'), 'password')
      assert.equal(await reveal.getAttribute('aria-pressed'), 'false')
      await says(page, 'Incorrect email or password.')
    }),
  )

  test(
    'shows a hint while Caps Lock is on',
    visit(async ({ page, look }) => {
      const press = (modifierCapsLock: boolean) =>
        page.locator('#password').dispatchEvent('keydown', { key: 'A', modifierCapsLock })
      await press(true)
      assert.equal(await page.innerText('#caps-lock'), 'Caps Lock is on')
      await look('caps-lock')
      await press(false)
      assert.equal(await page.innerText('#caps-lock'), '')
    }),
  )

  test(
    'moves nothing while the pointer is pressed, nor between a login and its answer',
    visit(
      async ({ page, fill }) => {
        const { promise, resolve: answer } = Promise.withResolvers<void>()
        await page.route(`**${LOGIN}`, async route => {
          await promise
          await route.continue()
        })
        // The button's own text changes.
        await page.evaluate(`window.shifts = []; new PerformanceObserver(list => shifts.push(
          ...list.getEntries().flatMap(({ sources }) => sources.map(({ node }) => node))
            .filter(node => !document.getElementById('log-in').contains(node))
            .map(node => node.id || node.nodeName))).observe({ type: 'layout-shift' })`)
        await fill('absent@example.com', 'WRONG PASSWORD')
        await page
          .locator('#password')
          .dispatchEvent('keydown', { key: 'A', modifierCapsLock: true })
        const places = () =>
          page.evaluate<number[]>(`['email', 'password', 'log-in'].map(id =>
            document.getElementById(id).getBoundingClientRect().top)`)
        const atRest = await places()
        const box = await page.locator('#log-in').boundingBox()
        assert.ok(box)
        await page.mouse.move(box.x + box.width / 2, box.y + 3)
        await page.mouse.down()
        await page.locator('#log-in:focus').waitFor()
        assert.deepEqual(await places(), atRest)
        await page.mouse.up()
        await page.getByRole('button', { name: 'Logging in…' }).waitFor()
        assert.deepEqual(await places(), atRest)
        assert.deepEqual(await page.evaluate('shifts'), [])
        answer()
        await says(page, 'Incorrect email or password.')
        // The second time the notice is there already, and stays until it is replaced.
        const withNotice = await places()
        await page.evaluate(`window.seen = []; new MutationObserver(() => seen.push(
          [notice.textContent, document.getElementById('log-in').getBoundingClientRect().top]))
          .observe(notice, { childList: true })`)
        await page.fill('#password', 'wrong again')
        await page.click('#log-in')
        while (await page.evaluate('seen.length === 0')) await page.waitForTimeout(20)
        assert.deepEqual(await page.evaluate('seen'), [
          ['Incorrect email or password.', withNotice[2]],
        ])
      },
      { context: { viewport: { width: 320, height: 700 } } },
    ),
  )

  test(
    'shows its notice in a low window, under the heading',
    visit(
      async ({ page, fill }) => {
        await fill('absent@example.com', 'wrong password')
        await page.click('#log-in')
        await says(page, 'Incorrect email or password.')
        const [heading, notice] = await Promise.all(
          ['h1:visible', '#notice'].map(selector => page.locator(selector).boundingBox()),
        )
        assert.ok(heading && notice && notice.y > heading.y + heading.height)
        assert.ok(
          await page.evaluate(`notice.getBoundingClientRect().bottom <= innerHeight &&
          notice.getBoundingClientRect().top >= 0`),
        )
      },
      { context: { viewport: { width: 740, height: 360 } } },
    ),
  )

  test(
    'keeps the focus and the cursor in the field when the password is shown',
    visit(async ({ page, fill }) => {
      await fill('kate@example.com', 'visible password')
      await page.focus('#password')
      await page.evaluate(`password.setSelectionRange(7, 7)`)
      await page.click('#reveal')
      await page.keyboard.type('!')
      assert.equal(await page.inputValue('#password'), 'visible! password')
      assert.equal(await focused(page), 'password')
    }),
  )

  test(
    'does not put the password into the address when it is sent without the script',
    visit(
      async ({ page, fill }) => {
        await fill('kate@example.com', 'canary-in-the-form')
        await page.evaluate(`document.getElementById('form').submit()`)
        await page.waitForURL('**/login')
        await page.getByText('METHOD_NOT_ALLOWED').waitFor()
        assert.doesNotMatch(page.url(), /canary|\?/)
      },
      { expected: [405] },
    ),
  )

  test(
    'cannot be sent without JavaScript, and a sentence says that it is needed',
    visit(
      async ({ page, picture }) => {
        await page.getByText(/This page needs JavaScript/).waitFor()
        assert.ok(await page.isDisabled('#log-in'))
        assert.ok(await page.isHidden('#loading'))
        await page.locator('#password').press('Enter')
        await picture('without-script')
      },
      { context: { javaScriptEnabled: false } },
    ),
  )

  test(
    'cannot be sent when the script cannot be loaded, and a sentence says what to do',
    visit(
      async ({ page, fill, picture }) => {
        await fill('kate@example.com')
        await page.locator('#password').press('Enter')
        await page.getByText(/Still loading/).waitFor()
        assert.ok(await page.isDisabled('#log-in'))
        await picture('still-loading')
      },
      {
        expected: ['net::ERR_FAILED'],
        prepare: page => page.route('**/login.js', route => route.abort()),
      },
    ),
  )

  const late = Promise.withResolvers<void>()
  test(
    'does not move, nor take the focus, when its script arrives late',
    visit(
      async ({ page }) => {
        await page.locator('#email').click()
        await page.keyboard.type('kate@example.com')
        await page.keyboard.press('Tab')
        await page.keyboard.type('half a ')
        const place = () =>
          Promise.all(['#password', 'main', 'footer'].map(one => page.locator(one).boundingBox()))
        const before = await place()
        late.resolve()
        await page.locator('#log-in:enabled').waitFor()
        await page.keyboard.type('password')
        await assertKept(page, 'kate@example.com', 'half a password')
        assert.deepEqual(await place(), before)
      },
      {
        prepare: page =>
          page.route('**/login.js', async route => {
            // The document is shown before its script has arrived.
            await late.promise
            await route.continue()
          }),
        isLate: true,
      },
    ),
  )

  test(
    'works in a browser that refuses a channel between windows, as Firefox does without cookies',
    visit(
      async ({ page, newUser, logIn }) => {
        await logIn(await newUser())
        await page.click('#log-out')
        await says(page, 'You are logged out.')
      },
      {
        prepare: page =>
          page.addInitScript(`window.BroadcastChannel = class {
            constructor() { throw new DOMException('no', 'SecurityError') } }`),
      },
    ),
  )

  test(
    'waits for hours if asked to, for the email that was sent, and ignores a foreign state',
    visit(
      async ({ page, fill }) => {
        const { promise, resolve: answer } = Promise.withResolvers<void>()
        await page.route(`**${LOGIN}`, async route => {
          await promise
          await route.fulfill({ status: 429, headers: { 'Retry-After': '7199' }, json: {} })
        })
        await fill('kate@example.com')
        await page.click('#log-in')
        await page.fill('#email', 'other@example.com')
        answer()
        await page.getByText(/Wait 1:59:5\d/).waitFor()
        await page.reload()
        await page.getByText(/Wait 1:59:5\d/).waitFor()
        assert.equal(await page.inputValue('#email'), 'kate@example.com')
        for (const state of ['{ email: 7, endsAt: Date.now() + 9000 }', '{ endsAt: 1e20 }', '7']) {
          await page.evaluate(`history.replaceState(${state}, '')`)
          await page.reload()
          await page.locator('#log-in:enabled').waitFor()
          assert.equal(await page.inputValue('#email'), '')
        }
      },
      { expected: [429] },
    ),
  )

  test(
    'goes from the email to an empty password on Enter',
    visit(async ({ page }) => {
      await page.fill('#email', 'kate@example.com')
      await page.press('#email', 'Enter')
      assert.equal(await focused(page), 'password')
      assert.equal(await page.innerText('#password-error'), '')
    }),
  )

  const slow = Promise.withResolvers<void>()
  test(
    'can be filled in before the first answer arrives, and then keeps its input and focus',
    visit(
      async ({ page, fill }) => {
        await fill('kate@example.com')
        await page.press('#password', 'Shift')
        assert.ok(await page.isHidden('#loading'))
        const answered = page.waitForResponse('**/session')
        slow.resolve()
        await (await answered).finished()
        await assertKept(page, 'kate@example.com')
        assert.equal(await focused(page), 'password')
      },
      {
        prepare: page =>
          page.route('**/session', async route => {
            await slow.promise
            await route.continue()
          }),
      },
    ),
  )

  test(
    'keeps the email, and not in the address, when the language is changed',
    visit(async ({ page }) => {
      await page.fill('#email', 'kate@example.com')
      await page.click('text=Deutsch')
      await page.getByRole('button', { name: 'Anmelden' }).waitFor()
      await page.locator('#log-in:enabled').waitFor()
      assert.equal(await page.inputValue('#email'), 'kate@example.com')
      assert.doesNotMatch(page.url(), /kate/)
      assert.equal(await page.evaluate('history.state'), null)
      await page.reload()
      await page.locator('#log-in:enabled').waitFor()
      assert.equal(await page.inputValue('#email'), '')
    }),
  )

  test(
    'uses the language of the browser',
    visit(
      async ({ page, fill, newUser, logIn, look }) => {
        assert.equal(await page.getAttribute('html', 'lang'), 'de')
        await fill('kate@example.com', 'falsches Passwort')
        await page.click('#log-in')
        await says(page, 'E-Mail-Adresse oder Passwort ist falsch.')
        await look('german')
        await logIn(await newUser())
        assert.match(
          await page.innerText('#sessions'),
          /Chrome auf Linux\sDieses Gerät\s+127\.0\.0\.1 · angemeldet gerade eben/,
        )
      },
      { context: { locale: 'de-DE' } },
    ),
  )
})
