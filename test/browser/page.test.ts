// The pages in Chromium: every state with its accessibility and its picture, and what the script adds.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { PASSWORD } from '../support/service.ts'
import { createVisitor } from '../support/visitor.ts'
import { assertAccessible, isFocused, logInOn, openVisits, says, sessionsOf } from './browser.ts'

const APP = 'https://app.example.com'
const NEW_PASSWORD = 'seven green boats at noon'
const FIRST_VISIT_MAX_BYTES = 30_000
/** WCAG 2.2, 2.5.8. */
const TARGET_MIN_PX = 24
const PHONE = 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Version/17.0 Safari/604.1'

describe('the form', () => {
  const visit = openVisits({ RETURN_TO_ORIGINS: APP })

  test(
    'has labels, marks its fields for password managers, and focuses the first',
    visit(async ({ page, look }) => {
      await isFocused(page, 'email')
      assert.equal(await page.getByLabel('Email').getAttribute('autocomplete'), 'username')
      const password = page.getByLabel('Password', { exact: true })
      assert.equal(await password.getAttribute('autocomplete'), 'current-password')
      await look('form')
      for (const id of ['password', '', 'log-in']) {
        await page.keyboard.press('Tab')
        if (id) await isFocused(page, id)
      }
    }),
  )

  test(
    'shows errors at its fields until they are corrected, and sends nothing',
    visit(async ({ page, look }) => {
      await page.click('#log-in')
      await page.getByText('Enter your password.').waitFor()
      await isFocused(page, 'email')
      await page.fill('#email', 'kate')
      await page.fill('#password', 'short')
      await page.click('#log-in')
      await page.getByText('Enter your whole password.').waitFor()
      await look('field-errors')
      await page.fill('#email', 'kate@example.com')
      assert.equal(await page.textContent('#email-error'), '')
      assert.equal(await page.getAttribute('#email', 'aria-invalid'), 'false')
    }),
  )

  test(
    'shows the password on demand, says that Caps Lock is on, and moves nothing',
    visit(async ({ page, fill, picture }) => {
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
    }),
  )

  test(
    'is sent once after repeated clicks, shows that it is under way, and hides the password',
    visit(async ({ page, newUser, fill, service }) => {
      await fill(await newUser())
      await page.getByRole('button', { name: 'Show password' }).click()
      const state = await page.evaluate(`(() => {
        const button = document.getElementById('log-in')
        for (let i = 0; i < 3; i++) button.click()
        const { type } = document.getElementById('password')
        return [button.innerText, button.getAttribute('aria-busy'), type]
      })()`)
      assert.deepEqual(state, ['Logging in…', 'true', 'password'])
      await sessionsOf(page).first().waitFor()
      const events = service.logged().map(({ event }) => event)
      assert.equal(events.filter(event => event === 'login.succeeded').length, 1)
    }),
  )

  test(
    'says what was wrong, with the focus on it and in the title, and takes the right password',
    visit(
      async ({ page, newUser, fill, look }) => {
        const email = await newUser()
        await fill(email, 'not the password')
        await page.click('#log-in')
        await says(page, 'Incorrect email or password.')
        await isFocused(page, 'notice')
        assert.match(await page.title(), /^Error: Log in/)
        assert.equal(await page.inputValue('#email'), email)
        assert.equal(await page.inputValue('#password'), '')
        await look('wrong-password')
        await logInOn(page, email)
      },
      { expected: [401] },
    ),
  )

  test(
    'counts a wait down, lifts it for another email, and logs in after it',
    visit(
      async ({ page, newUser, fill, service, look }) => {
        const email = await newUser()
        for (let i = 0; i < 5; i++) await service.login(email, 'wrong')
        const send = async () => {
          await fill(email)
          await page.click('#log-in:enabled')
          await says(page, 'Too many attempts. You can try again in 15 minutes.')
          await page.getByText(/^Wait 1[45]:\d\d$/).waitFor()
        }
        await send()
        await isFocused(page, 'notice')
        await look('wait')
        await page.fill('#email', 'other@example.com')
        await page.locator('#log-in:enabled').waitFor()
        await send()
        await byEmail(service.store).unlock(email, changeAt(service.now()))
        await page.evaluate('(now => { Date.now = () => now() + 900_000 })(Date.now)')
        await says(page, 'You can try again now.')
        await logInOn(page, email)
      },
      { expected: [429] },
    ),
  )

  test(
    'is in German for a browser that prefers it, and keeps what it was asked for in the other language',
    visit(
      async ({ page, look }) => {
        await page.getByRole('heading', { name: 'Anmelden' }).waitFor()
        await look('german')
        await page.getByRole('link', { name: 'English' }).click()
        await page.getByText('to continue to app.example.com').waitFor()
        await look('return-to')
      },
      { context: { locale: 'de-AT' }, path: `/login?return_to=${APP}/` },
    ),
  )
})

describe('the account', () => {
  const visit = openVisits({ MAX_SESSIONS_PER_USER: '40' })

  test(
    'shows the user, the last login and the sessions, and ends them',
    visit(async ({ page, newUser, logIn, service, look }) => {
      const email = await newUser('Kate Smith')
      for (const agent of ['curl/8.14.1', PHONE]) {
        const headers = { 'User-Agent': agent }
        await service.call({ headers, body: { email, password: PASSWORD } })
      }
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
      await page.goBack()
      await page.reload()
      assert.equal(await page.locator('#log-out').count(), 0)
    }),
  )

  test(
    'warns of failed attempts, shows long names and devices, and many sessions',
    visit(async ({ page, service, fill, newUser, logIn, look }) => {
      const email = `${'long'.repeat(14)}@${'domain.'.repeat(20)}example.com`
      await service.addUser(email, { name: `شيرين ${'Longname'.repeat(11)}` })
      for (let i = 0; i < 30; i++) {
        const headers = { 'User-Agent': `${'x'.repeat(60)}${i}` }
        await service.call({ headers, body: { email, password: PASSWORD } })
      }
      await fill(email)
      await page.click('#log-in')
      await page.getByText('Show all 31').click()
      assert.equal(await sessionsOf(page).count(), 31)
      await look('many-sessions')
      await page.click('#log-out')
      const warned = await newUser()
      await service.login(warned, PASSWORD)
      for (let i = 0; i < 3; i++) await service.login(warned, 'wrong')
      await logIn(warned)
      await page.getByText('3 attempts to log in to your account have failed').waitFor()
      await look('failures')
    }),
  )

  test(
    'leads to a change of the password, which a click on Save saves',
    visit(
      async ({ page, newUser, logIn, look }) => {
        const email = await newUser()
        await logIn(email)
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
      },
      { expected: [400, 401] },
    ),
  )

  test(
    'ends with its session; the form has the email',
    visit(async ({ page, newUser, logIn, service, look }) => {
      const email = await newUser()
      await logIn(email)
      service.advance(31 * 60_000)
      await page.reload()
      await says(page, 'Your session has ended. Please log in again.')
      assert.equal(await page.inputValue('#email'), email)
      await look('session-ended')
    }),
  )
})

describe('an address to return to', () => {
  const visit = openVisits({ RETURN_TO_ORIGINS: APP })
  const path = `/login?return_to=${APP}/a`

  test(
    'is gone to after the login, in place of the form; the third time in a moment, the user must click',
    visit(
      async ({ page, newUser, fill, service, look }) => {
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
      },
      { path, elsewhere: [APP] },
    ),
  )
})

describe('the appearance', () => {
  const visit = openVisits()

  test(
    'has targets of at least 24 pixels, and outlines the focused element',
    visit(async ({ page, newUser, logIn, service }) => {
      const sizes = () =>
        page.evaluate<number[]>(`[...document.querySelectorAll('button, input, a')]
          .map(it => it.getBoundingClientRect()).filter(({ width }) => width > 0)
          .flatMap(({ width, height }) => [width, height])`)
      const outline = () => page.evaluate('getComputedStyle(document.activeElement).outlineStyle')
      const assertUsable = async () => {
        assert.ok(Math.min(...(await sizes())) >= TARGET_MIN_PX)
        for (let i = 0; i < 3; i++) {
          await page.keyboard.press('Tab')
          assert.equal(await outline(), 'solid')
        }
      }
      await assertUsable()
      const email = await newUser()
      await service.login(email, PASSWORD)
      await logIn(email)
      await assertUsable()
    }),
  )

  test(
    'has no animation with reduced motion, more contrast if asked for, and forced colours',
    visit(
      async ({ page, newUser, logIn, picture }) => {
        const style = (selector: string, property: string) =>
          page.evaluate<string>(
            `getComputedStyle(document.querySelector('${selector}')).${property}`,
          )
        assert.equal(await style('.spinner', 'animationName'), 'none')
        await page.emulateMedia({ contrast: 'more' })
        assert.equal(await style('#email', 'borderColor'), await style('#form', 'color'))
        await page.emulateMedia({ contrast: 'no-preference', forcedColors: 'active' })
        assert.equal(await style('#log-in', 'borderStyle'), 'solid')
        await assertAccessible(page)
        await logIn(await newUser())
        await assertAccessible(page)
        await picture('forced-colours')
      },
      { context: { reducedMotion: 'reduce' } },
    ),
  )

  test(
    'leads from an address where there is nothing to the login, in either language',
    visit(
      async ({ page, look }) => {
        await page.getByRole('heading', { name: 'Page not found' }).waitFor()
        await look('not-found')
        await page.getByRole('link', { name: 'Deutsch' }).click()
        await page.getByRole('link', { name: 'Zur Anmeldung' }).click()
        await page.locator('#log-in:enabled').waitFor()
      },
      { path: '/nothing', expected: [404] },
    ),
  )

  test(
    'transfers less than 30 KB at the first visit',
    visit(async ({ page, context, print }) => {
      const cdp = await context.newCDPSession(page)
      await cdp.send('Network.enable')
      await cdp.send('Network.setCacheDisabled', { cacheDisabled: true })
      let bytes = 0
      let files = 0
      cdp.on('Network.loadingFinished', ({ encodedDataLength }) => {
        bytes += encodedDataLength
        files++
      })
      await page.reload({ waitUntil: 'networkidle' })
      print(`first visit: ${bytes} bytes in ${files} answers, headers included`)
      assert.ok(files >= 4 && bytes < FIRST_VISIT_MAX_BYTES, String(bytes))
    }),
  )
})

const folder = mkdtempSync(join(tmpdir(), 'login-brand-'))
after(() => rmSync(folder, { recursive: true }))
const logo = join(folder, 'logo.svg')
writeFileSync(
  logo,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 40"><path d="M2 38 20 4l12 22 8-12 18 24z" fill="#2f9e44"/></svg>`,
)

for (const [name, color] of [
  ['yellow', '#ffd43b'],
  ['black', '#000'],
] as const) {
  describe(`a ${name} brand`, () => {
    const visit = openVisits({
      BRAND_NAME: 'Example & Co',
      BRAND_COLOR: color,
      BRAND_LOGO_FILE: logo,
      HELP_TEXT: 'Trouble logging in?',
      HELP_URL: 'mailto:help@example.com',
      TERMS_URL: 'https://example.com/terms',
      PRIVACY_URL: 'https://example.com/privacy',
      HOME_URL: 'https://example.com/start',
    })

    test(
      'is accessible, and shows its name, its logo and its links',
      visit(async ({ page, newUser, logIn, look }) => {
        await page.getByText('Example & Co').waitFor()
        const width = `document.querySelector('header img').naturalWidth`
        assert.ok(Number(await page.evaluate(width)) > 0)
        await look(`brand-${name}`)
        await logIn(await newUser())
        await assertAccessible(page)
        const home = page.getByRole('link', { name: 'Go to example.com' })
        assert.equal(await home.getAttribute('href'), 'https://example.com/start')
        await page.getByRole('link', { name: 'Terms' }).waitFor()
      }),
    )
  })
}
