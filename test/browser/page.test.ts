// The pages in Chromium: every state with its accessibility and its picture, and what the script adds.
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe } from 'node:test'
import { own, ownFolder } from '../support/own.ts'
import { PASSWORD, startTestService } from '../support/service.ts'
import { createVisitor } from '../support/visitor.ts'
import {
  assertAccessible,
  createVisits,
  isFocused,
  says,
  sessionsOf,
  startChromium,
} from './browser.ts'

const APP = 'https://app.example.com'
const NEW_PASSWORD = 'seven green boats at noon'
/** WCAG 2.2, 2.5.8. */
const TARGET_MIN_PX = 24
const PHONE = 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Version/17.0 Safari/604.1'
const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 40"><path d="M2 38 20 4l12 22 8-12 18 24z" fill="#2f9e44"/></svg>`

describe('the pages in Chromium', async () => {
  const browser = await own(startChromium())
  const service = await own(
    startTestService('sqlite', {
      THROTTLE_CLIENT_FAILURES: '1000',
      MAX_SESSIONS_PER_USER: '40',
      RETURN_TO_ORIGINS: APP,
    }),
  )
  const test = createVisits(browser, service)
  const fromDevice = (email: string, agent: string) =>
    service.call({ headers: { 'User-Agent': agent }, body: { email, password: PASSWORD } })

  test('the form has labels, marks its fields for password managers, and focuses the first', async visit => {
    const { page, look } = visit
    await isFocused(page, 'email')
    assert.equal(await page.getByLabel('Email').getAttribute('autocomplete'), 'username')
    const password = page.getByLabel('Password', { exact: true })
    assert.equal(await password.getAttribute('autocomplete'), 'current-password')
    await look('form')
    // The eye of the password and the line about two-step login have no id.
    for (const id of ['password', '', '', 'log-in']) {
      await page.keyboard.press('Tab')
      if (id) await isFocused(page, id)
    }
  })

  test('the form shows errors at its fields until they are corrected, and sends nothing', async visit => {
    const { page, fill, look } = visit
    await page.click('#log-in')
    await page.getByText('Enter your password.').waitFor()
    await isFocused(page, 'email')
    await fill('kate', 'short')
    await page.click('#log-in')
    await page.getByText('Enter your whole password.').waitFor()
    await look('field-errors')
    await page.fill('#email', 'kate@example.com')
    assert.equal(await page.textContent('#email-error'), '')
    assert.equal(await page.getAttribute('#email', 'aria-invalid'), 'false')
  })

  test('the form shows the password on demand, says that Caps Lock is on, and moves nothing', async visit => {
    const { page, fill, picture } = visit
    await fill('kate@example.com', 'correct horse')
    const place = () => page.locator('#log-in').boundingBox()
    const before = await place()
    await page.locator('#password').focus()
    // Chromium has no way to press Caps Lock for a test.
    await page.evaluate(`document.getElementById('password').dispatchEvent(
        new KeyboardEvent('keyup', { modifierCapsLock: true }))`)
    await page.getByText('Caps Lock is on').waitFor()
    await page.getByRole('button', { name: 'Show password' }).click()
    await isFocused(page, 'password')
    assert.equal(await page.getAttribute('#password', 'type'), 'text')
    assert.deepEqual(await place(), before)
    await picture('password-shown')
  })

  test('the form is sent once after repeated clicks, shows that it is under way, and hides the password', async visit => {
    const { page, newUser, fill } = visit
    const email = await newUser()
    await fill(email)
    await page.getByRole('button', { name: 'Show password' }).click()
    const state = await page.evaluate(`(() => {
        const button = document.getElementById('log-in')
        for (let i = 0; i < 3; i++) button.click()
        const { type } = document.getElementById('password')
        return [button.innerText, button.getAttribute('aria-busy'), type]
      })()`)
    assert.deepEqual(state, ['Logging in…', 'true', 'password'])
    await sessionsOf(page).first().waitFor()
    const { id } = (await service.store.users.findByEmail(email)) ?? {}
    const lines = service.logged().filter(({ userId }) => userId === id)
    assert.equal(lines.filter(({ event }) => event === 'login.succeeded').length, 1)
  })

  test('the form keeps the email and empties the password while it counts a wait down, which it lifts for another email', {
    expected: [429],
  }, async ({ page, newUser, fill, look }) => {
    const email = await newUser()
    for (let i = 0; i < 5; i++) await service.login(email, 'wrong')
    await fill(email)
    await page.click('#log-in')
    await says(page, 'Too many attempts. You can try again in 15 minutes.')
    await page.getByText(/^Wait 1[45]:\d\d$/).waitFor()
    await isFocused(page, 'notice')
    assert.match(await page.title(), /^Error: Log in/)
    assert.equal(await page.inputValue('#email'), email)
    assert.equal(await page.inputValue('#password'), '')
    await look('wait')
    await page.fill('#email', 'other@example.com')
    await page.locator('#log-in:enabled').waitFor()
  })

  test('the form is in German for a browser that prefers it, and keeps what it was asked for in the other language', {
    context: { locale: 'de-AT' },
    path: `/login?return_to=${APP}/`,
  }, async ({ page, look }) => {
    await page.getByRole('heading', { name: 'Anmelden' }).waitFor()
    await look('german')
    await page.getByRole('link', { name: 'English' }).click()
    await page.getByText('to continue to app.example.com').waitFor()
    await look('return-to')
  })

  test('the account shows the user, the last login and the sessions, and ends them', async visit => {
    const { page, newUser, logIn, look } = visit
    const email = await newUser('Kate Smith')
    for (const agent of ['curl/8.14.1', PHONE]) await fromDevice(email, agent)
    await logIn(email)
    assert.equal(await page.title(), 'Logged in · Login Service')
    const rows = await sessionsOf(page).allInnerTexts()
    assert.deepEqual(
      rows.map(row => row.split('\n')[0]?.trim()),
      ['Chrome on Linux This device', 'Safari on iPhone', 'curl'],
    )
    assert.match(rows[1] ?? '', /logged in just now/)
    await page.getByText('Last login: just now · Safari on iPhone').waitFor()
    await look('account')
    await page.getByRole('button', { name: /^Log out: Safari on iPhone/ }).click()
    await says(page, 'That device is logged out.')
    await page.getByRole('button', { name: 'Log out all other devices' }).click()
    await says(page, 'All other devices are logged out.')
    assert.equal(await sessionsOf(page).count(), 1)
    // No secret is where a script could read it.
    const kept = `[document.cookie, localStorage.length, sessionStorage.length].join()`
    assert.equal(await page.evaluate(kept), ',0,0')
    await page.click('#log-out')
    await says(page, 'You are logged out.')
    await look('logged-out')
    await page.goBack()
    await page.reload()
    assert.equal(await page.locator('#log-out').count(), 0)
  })

  test('the account warns of failed attempts, shows long names and devices, and many sessions', async visit => {
    const { page, logIn, look } = visit
    const email = `${'long'.repeat(14)}@${'domain.'.repeat(20)}example.com`
    await service.addUser(email, { name: `شيرين ${'Longname'.repeat(11)}` })
    for (let i = 0; i < 30; i++) await fromDevice(email, `${'x'.repeat(60)}${i}`)
    for (let i = 0; i < 3; i++) await service.login(email, 'wrong')
    await logIn(email)
    await page.getByText('3 attempts to log in to your account have failed').waitFor()
    await page.getByText('Show 16 more').click()
    assert.equal(await sessionsOf(page).count(), 21)
    await look('many-sessions')
    await page.getByRole('link', { name: 'Older logins' }).click()
    await page.getByRole('link', { name: 'Newest logins' }).waitFor()
    assert.equal(await sessionsOf(page).count(), 10)
    await look('older-sessions')
  })

  test('the account leads to a change of the password, which a click on Save saves', {
    expected: [400, 401],
  }, async ({ page, newUser, logIn, look }) => {
    await logIn(await newUser())
    await page.click('#change-password')
    await isFocused(page, 'title')
    assert.equal(await page.getAttribute('#email', 'readonly'), '')
    assert.equal(await page.getAttribute('#new-password', 'autocomplete'), 'new-password')
    await look('change-password')
    const change = async (current: string, next: string) => {
      await page.fill('#password', current)
      await page.fill('#new-password', next)
      // The hint becomes an error, and nothing moves before the click.
      await page.click('#save')
    }
    await change(PASSWORD, 'seven77')
    await page.getByText('Choose a password with at least 8 characters.').waitFor()
    await change(PASSWORD, 'password1')
    await page.getByText('Many people use this password').waitFor()
    await isFocused(page, 'new-password')
    await look('refused-password')
    await change('not the password', NEW_PASSWORD)
    await says(page, 'Your current password is incorrect.')
    await change(PASSWORD, NEW_PASSWORD)
    await says(page, 'Your password is changed. All other devices are logged out.')
    await look('password-changed')
  })

  const path = `/login?return_to=${APP}/a`
  test('an address to return to is gone to in place of the form; the third time in a moment, the user must click', {
    path,
    elsewhere: [APP],
  }, async ({ page, newUser, fill, look }) => {
    const email = await newUser()
    await fill(email)
    await page.click('#log-in')
    await page.waitForURL(`${APP}/a`)
    for (let i = 0; i < 2; i++) {
      await page.goto(service.url + path)
      await page.waitForURL(`${APP}/a`)
    }
    await page.goto(service.url + path)
    await says(page, /^You are logged in, but app\.example\.com sent you back here/)
    await look('sent-back')
    await page.click('#continue')
    await page.waitForURL(`${APP}/a`)
    // The page on the way there, which stays.
    const { text } = await createVisitor(service).logIn(email, PASSWORD, path)
    const body = text.replace(' data-go', '')
    await page.route('**/leaving', route => route.fulfill({ contentType: 'text/html', body }))
    await page.goto(`${service.url}/leaving`)
    await page.getByRole('link', { name: 'Continue to app.example.com' }).waitFor()
    await look('leaving')
  })

  test('targets have at least 24 pixels, and the focused element an outline', async visit => {
    const { page, newUser, logIn } = visit
    const assertUsable = async () => {
      const sizes = await page.evaluate<
        number[]
      >(`[...document.querySelectorAll('button, input, a')]
          .map(it => it.getBoundingClientRect()).filter(({ width }) => width > 0)
          .flatMap(({ width, height }) => [width, height])`)
      assert.ok(Math.min(...sizes) >= TARGET_MIN_PX)
      for (let i = 0; i < 3; i++) {
        await page.keyboard.press('Tab')
        const outline = 'getComputedStyle(document.activeElement).outlineStyle'
        assert.equal(await page.evaluate(outline), 'solid')
      }
    }
    await assertUsable()
    const email = await newUser()
    await service.login(email, PASSWORD)
    await logIn(email)
    await assertUsable()
  })

  test('there is no animation with reduced motion, more contrast if asked for, and forced colours', {
    context: { reducedMotion: 'reduce' },
  }, async ({ page, newUser, logIn, picture }) => {
    const style = (selector: string, property: string) =>
      page.evaluate(`getComputedStyle(document.querySelector('${selector}')).${property}`)
    assert.equal(await style('.spinner', 'animationName'), 'none')
    await page.emulateMedia({ contrast: 'more' })
    assert.equal(await style('#email', 'borderColor'), await style('#form', 'color'))
    await page.emulateMedia({ contrast: 'no-preference', forcedColors: 'active' })
    assert.equal(await style('#log-in', 'borderStyle'), 'solid')
    await assertAccessible(page)
    await logIn(await newUser())
    await assertAccessible(page)
    await picture('forced-colours')
  })

  test('an address where there is nothing leads to the login, in either language', {
    path: '/nothing',
    expected: [404],
  }, async ({ page, look }) => {
    await page.getByRole('heading', { name: 'Page not found' }).waitFor()
    await look('not-found')
    await page.getByRole('link', { name: 'Deutsch' }).click()
    await page.getByRole('link', { name: 'Zur Anmeldung' }).click()
    await page.locator('#log-in:enabled').waitFor()
  })

  test('the reference of the API leads to every operation, and opens its answers', {
    path: '/docs',
  }, async ({ page, look, picture }) => {
    assert.equal(await page.title(), 'API reference · Login Service')
    await picture('reference')
    const { text } = await service.call({ method: 'GET', path: '/openapi.json' })
    const operations = Object.values<object>(JSON.parse(text).paths).flatMap(Object.keys)
    assert.equal(await page.locator('nav a').count(), operations.length)
    await page.getByRole('link', { name: 'Log in with email and password' }).click()
    const login = page.locator('#logIn')
    assert.equal(await login.getByText('"accessToken"').isVisible(), true)
    const failure = login.getByText('INVALID_CREDENTIALS')
    assert.equal(await failure.isVisible(), false)
    await login.locator('summary').click()
    assert.equal(await failure.isVisible(), true)
    await page.evaluate(`document.querySelectorAll('details').forEach(it => { it.open = true })`)
    await look('reference-answers')
  })

  const logoFile = join(await ownFolder('login-brand-'), 'logo.svg')
  await writeFile(logoFile, LOGO)
  for (const [name, color] of [
    ['yellow', '#ffd43b'],
    ['black', '#000'],
  ] as const) {
    const branded = await own(
      startTestService('sqlite', {
        BRAND_NAME: 'Example & Co',
        BRAND_COLOR: color,
        BRAND_LOGO_FILE: logoFile,
        HELP_TEXT: 'Trouble logging in?',
        HELP_URL: 'mailto:help@example.com',
        TERMS_URL: 'https://example.com/terms',
        PRIVACY_URL: 'https://example.com/privacy',
        HOME_URL: 'https://example.com/start',
      }),
    )
    const test = createVisits(browser, branded)
    test(`a ${name} brand is accessible, and shows its name, its logo and its links`, async visit => {
      const { page, newUser, logIn, look } = visit
      await page.getByText('Example & Co').waitFor()
      const width = `document.querySelector('header img').naturalWidth`
      assert.ok(Number(await page.evaluate(width)) > 0)
      await look(`brand-${name}`)
      await logIn(await newUser())
      await assertAccessible(page)
      const home = page.getByRole('link', { name: 'Go to example.com' })
      assert.equal(await home.getAttribute('href'), 'https://example.com/start')
      await page.getByRole('link', { name: 'Terms' }).waitFor()
    })
  }
})
