// Two-step login in Chromium: every page at three widths, in light and dark, with and without the script, and what the
// script adds.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe } from 'node:test'
import type { Page } from 'playwright-core'
import { parseSecret } from '../../src/login/totp.ts'
import { changeAt } from '../storage/fixtures.ts'
import { createAuthenticator, newUserWithApp, STEP_MS } from '../support/authenticator.ts'
import { own } from '../support/own.ts'
import { createAddresses, PASSWORD, startTestService, UNLIMITED } from '../support/service.ts'
import { makeTemporary } from '../support/visitor.ts'
import { assertUsable, createVisits, isFocused, says, startChromium } from './browser.ts'

const WIDTHS = [1200, 390, 320]
const CLIPBOARD = { context: { permissions: ['clipboard-read', 'clipboard-write'] } }
const PHONE = { context: { hasTouch: true, isMobile: true, viewport: { width: 390, height: 844 } } }
const NEW_PASSWORD = 'seven green boats at noon'

describe('two-step login in Chromium', async () => {
  const browser = await own(startChromium())
  const service = await own(
    startTestService('sqlite', { ...UNLIMITED, SECOND_FACTOR_ROLES: 'editor' }),
  )
  const test = createVisits(browser, service)
  const newAddress = createAddresses()

  async function newUser({ role = 'user', isTemporary = false } = {}) {
    const email = await service.newUser()
    const { id = '' } = (await service.store.users.findByEmail(email)) ?? {}
    if (isTemporary) await makeTemporary(service, email)
    if (role !== 'user') await service.store.users.set(id, { role }, changeAt(service.now()))
    return email
  }

  /** The app that has scanned the page. */
  async function appOf(page: Page) {
    const secret = parseSecret(await page.inputValue('[name=secret]'))
    assert.ok(secret)
    return createAuthenticator(service.now, secret)
  }

  async function logIn(page: Page, email: string, otp: string) {
    await page.fill('#email', email)
    await page.fill('#password', PASSWORD)
    if (!(await page.isVisible('#otp'))) await page.click('#two-steps summary')
    await page.fill('#otp', otp)
    await page.click('#log-in')
    await page.locator('#log-out').waitFor()
  }

  const clipboard = (page: Page) => page.evaluate<string>('navigator.clipboard.readText()')

  /** What another program than the one that made it reads in the picture on the screen. */
  async function scan(page: Page): Promise<string> {
    const input = await page.locator('.qr').screenshot()
    const reader = ['-q', '--raw', '-Sdisable', '-Sqrcode.enable', 'png:-']
    return execFileSync('zbarimg', reader, { input, stdio: ['pipe', 'pipe', 'ignore'] })
      .toString()
      .trim()
  }

  test('it is set up: the code is scanned or copied, and the recovery codes are copied and printed', {
    ...CLIPBOARD,
    expected: [400],
  }, async visit => {
    const { page, look } = visit
    const email = await newUser()
    await visit.logIn(email)
    await look('account-one-step')
    await page.click('#set-up')
    await isFocused(page, 'title')
    await look('set-up')
    await assertUsable(page, WIDTHS)
    const secret = await page.inputValue('[name=secret]')
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme })
      const scanned = new URL(await scan(page))
      assert.equal(decodeURIComponent(scanned.pathname), `/Login Service:${email}`)
      assert.equal(scanned.search, `?secret=${secret}&issuer=Login%20Service`)
    }
    assert.equal(await page.isVisible('.open-app'), false)
    await page.getByRole('button', { name: 'Copy' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    assert.equal(await clipboard(page), secret)

    const app = await appOf(page)
    await page.fill('#password', PASSWORD)
    await page.fill('#new-otp', '12345')
    await page.click('#turn-on')
    await page.getByText('Enter the six digits that the app shows.').waitFor()
    await page.fill('#new-otp', app.wrongCode())
    await page.click('#turn-on')
    await page.getByText('This code does not fit.').waitFor()
    await isFocused(page, 'new-otp')
    assert.deepEqual(
      [await page.inputValue('#password'), await page.inputValue('[name=secret]')],
      ['', secret],
    )
    await look('set-up-error')
    await assertUsable(page, WIDTHS)
    await page.fill('#password', PASSWORD)
    await page.fill('#new-otp', app.code())
    await page.click('#turn-on')

    await says(page, 'Two-step login is on. All other devices are logged out.')
    await isFocused(page, 'notice')
    await look('recovery-codes')
    await assertUsable(page, WIDTHS)
    await page.getByRole('button', { name: 'Copy' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    const codes = (await clipboard(page)).split('\n')
    assert.equal(codes.length, 10)
    for (const code of codes) assert.match(code, /^\w{4}(-\w{4}){5}$/)
    await page.evaluate('window.print = () => document.body.classList.add("printed")')
    await page.getByRole('button', { name: 'Print' }).click()
    await page.locator('.printed').waitFor()
    await page.emulateMedia({ media: 'print' })
    assert.equal(await page.isVisible('#stored'), false)
    assert.equal(await page.isVisible('.made'), true)
    await page.emulateMedia({ media: 'screen' })
    await page.click('#stored')
    await page.getByText('10 of 10 left').waitFor()
    await look('account-two-steps')
    await assertUsable(page, WIDTHS)
  })

  test('the login asks for a code on demand: the keypad has digits, and a recovery code can be typed', async ({
    page,
    look,
  }) => {
    const { email, recoveryCodes } = await newUserWithApp(service, newAddress)
    await isFocused(page, 'email')
    await page.fill('#email', email)
    await page.fill('#password', PASSWORD)
    await page.locator('#password').focus()
    for (let i = 0; i < 2; i++) await page.keyboard.press('Tab')
    await page.locator('#two-steps summary:focus').waitFor()
    await page.keyboard.press('Enter')
    const field = page.getByLabel('Code', { exact: true })
    const attributes = (input: typeof field) =>
      Promise.all(['inputmode', 'autocomplete'].map(name => input.getAttribute(name)))
    assert.deepEqual(await attributes(field), ['numeric', 'one-time-code'])
    await look('login-open')
    await assertUsable(page, WIDTHS)
    await page.keyboard.press('Tab')
    await isFocused(page, 'otp')
    await page.keyboard.type('123')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await isFocused(page, 'otp')
    const recovery = page.getByLabel('Recovery code')
    assert.equal(await recovery.inputValue(), '')
    assert.deepEqual(await attributes(recovery), ['text', 'off'])
    await look('login-recovery')
    await page.keyboard.type(recoveryCodes[0] ?? '')
    await page.keyboard.press('Enter')
    await page.getByText('9 of 10 left').waitFor()
    await page.click('#log-out')
    // This browser has used it.
    await page.getByLabel('Code', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Use a recovery code' }).click()
    await page.getByRole('button', { name: 'Use a code from the app' }).click()
    assert.deepEqual(await attributes(field), ['numeric', 'one-time-code'])
  })

  test('a refusal opens the field, and the account warns of wrong codes', {
    expected: [401],
  }, async ({ page, fill, look }) => {
    const { email, app } = await newUserWithApp(service, newAddress)
    for (let i = 0; i < 3; i++) {
      await service.call({ body: { email, password: PASSWORD, otp: app.wrongCode(i) } })
    }
    await fill(email)
    await page.click('#log-in')
    await says(page, 'Incorrect email, password or code.')
    await isFocused(page, 'notice')
    await page.getByText('Leave it empty if you do not use two-step login.').waitFor()
    await look('login-refused')
    await assertUsable(page, WIDTHS)
    await logIn(page, email, app.code())
    await isFocused(page, 'password-known')
    await look('account-alarm')
    await assertUsable(page, WIDTHS)
  })

  test('the app is replaced, new recovery codes are made, and two-step login is turned off', async ({
    page,
    look,
  }) => {
    const { email, app } = await newUserWithApp(service, newAddress)
    await logIn(page, email, app.code())
    service.advance(STEP_MS)
    const forms = [
      ['#change-password', 'password-two-steps'],
      ['#replace', 'replace'],
      ['#new-codes', 'new-codes'],
      ['[id^=remove-]', 'turn-off'],
    ] as const
    for (const [link, name] of forms) {
      await page.click(link)
      await isFocused(page, 'title')
      await look(name)
      await assertUsable(page, WIDTHS)
      await page.click('#cancel')
      await page.locator('#log-out').waitFor()
    }
    await page.getByRole('link', { name: 'Replace: Authenticator app' }).click()
    const next = await appOf(page)
    assert.equal(await page.getAttribute('#new-otp', 'autocomplete'), 'off')
    await page.fill('#new-otp', next.code())
    await page.fill('#password', PASSWORD)
    await page.click('#turn-on')
    await page.getByText('Enter a code from your app, or a recovery code.').waitFor()
    await isFocused(page, 'otp')
    await page.fill('#otp', app.code())
    await page.click('#turn-on')
    await says(page, 'The authenticator app is replaced. All other devices are logged out.')
    await page.click('#stored')
    service.advance(STEP_MS)
    await page.getByRole('link', { name: 'Remove: Authenticator app' }).click()
    await page.fill('#password', PASSWORD)
    await page.fill('#otp', next.code())
    await page.click('#turn-off')
    await says(page, 'Two-step login is off. All other devices are logged out.')
  })

  test('a temporary password and the set-up that a role demands are one form', {
    expected: [403],
  }, async ({ page, fill, look }) => {
    await fill(await newUser({ role: 'editor', isTemporary: true }))
    await page.click('#log-in')
    await says(page, 'Your password is temporary, and your account needs two-step login.')
    await look('set-up-both')
    await assertUsable(page, WIDTHS)
    const app = await appOf(page)
    await page.fill('#password', PASSWORD)
    await page.fill('#new-password', NEW_PASSWORD)
    await page.fill('#new-otp', app.code())
    await page.click('#turn-on')
    await page.click('#stored')
    await page.locator('#log-out').waitFor()
    assert.equal(await page.locator('[id^=remove-]').count(), 0)
  })

  test(
    'a phone has a link to an app on it, beside the picture that it cannot scan',
    PHONE,
    async visit => {
      const { page } = visit
      await visit.logIn(await newUser())
      await page.click('#set-up')
      const link = page.getByRole('link', { name: 'Open in an app on this device' })
      assert.match((await link.getAttribute('href')) ?? '', /^otpauth:\/\/totp\/Login%20Service:/)
      assert.equal(await link.isVisible(), true)
    },
  )

  test('without the script nothing is missing but comfort', {
    context: { locale: 'de-AT' },
  }, async ({ page, fill, picture }) => {
    await page.route('**/login.js', route =>
      route.fulfill({ contentType: 'text/javascript', body: '' }),
    )
    await page.reload()
    const email = await newUser()
    await fill(email)
    await page.click('#log-in')
    await page.click('#set-up')
    const app = await appOf(page)
    await assertUsable(page, WIDTHS)
    await page.fill('#password', PASSWORD)
    await page.fill('#new-otp', app.code())
    await page.click('#turn-on')
    await says(page, 'Die Anmeldung in zwei Schritten ist eingeschaltet.')
    await assertUsable(page, WIDTHS)
    await picture('recovery-codes-plain')
    const [code = ''] = await page.locator('#codes code').allTextContents()
    await page.click('#stored')
    await page.locator('#log-out').waitFor()
    await assertUsable(page, WIDTHS)
    await page.click('#log-out')
    // One field takes both kinds of codes.
    assert.equal(await page.getAttribute('#otp', 'inputmode'), null)
    await page.getByText('oder ein Wiederherstellungscode').waitFor()
    assert.equal(await page.getByRole('button').count(), 1)
    await logIn(page, email, code)
    await page.getByText('noch 9 von 10').waitFor()
  })
})
