// Passkeys in Chromium and Firefox, with authenticators in software; in browsers without them, nothing about them is shown.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import de from '../../src/page/texts/de.json' with { type: 'json' }
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { changeAt } from '../storage/fixtures.ts'
import { newUserWithApp } from '../support/authenticator.ts'
import { own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { createAddresses, PASSWORD, startTestService, UNLIMITED } from '../support/service.ts'
import { makeTemporary } from '../support/visitor.ts'
import {
  assertUsable,
  createVisits,
  isFocused,
  keyOfCertificate,
  says,
  startChromium,
  trustFlag,
} from './browser.ts'
import { BROWSER_NAMES, startBrowser, type Window } from './webdriver.ts'

const WIDTHS = [1200, 390, 320]

describe('passkeys', { concurrency: true }, async () => {
  const [port, otherPort] = [await freePort(), await freePort()]
  const issuer = `https://localhost:${port}`
  const env = { ...UNLIMITED, PORT: String(port), JWT_ISSUER: issuer }
  const service = await startTestService('sqlite', env)
  /** The same service at another address, such as one that looks like it. */
  const elsewhere = `https://localhost:${otherPort}`
  const other = await own(startTestService('sqlite', { ...env, PORT: String(otherPort) }, service))
  await own(Promise.resolve(service))
  const newAddress = createAddresses()
  const trustedKey = await keyOfCertificate(service)
  /** Made before the tests run side by side, because each one moves the clock. */
  const holders: Awaited<ReturnType<typeof newUserWithApp>>[] = []
  while (holders.length < 10) holders.push(await newUserWithApp(service, newAddress))

  async function openLogin(window: Window, email: string, origin = issuer) {
    await window.open(`${origin}/login?prompt=login`)
    await window.type('#email', email)
    await window.type('#password', PASSWORD)
    if ((await window.evaluate("document.querySelector('#two-steps').open")) !== true) {
      await window.click('#two-steps summary')
    }
  }
  async function logIn(window: Window, email: string, origin?: string) {
    await openLogin(window, email, origin)
    await window.click('#use-passkey')
  }
  const reasonsIn = (it: typeof service, email: string) =>
    it.logged().flatMap(line => (line.email === email ? [line.reason] : []))

  for (const name of ['chromium', 'firefox'] as const) {
    for (const isUserVerified of [true, false]) {
      it(`are added, used and removed in ${name}, ${isUserVerified ? 'with' : 'without'} user verification`, async () => {
        const browser = await own(startBrowser(name, 'en-GB', { trustedKey }))
        const window = await browser.openWindow()
        await window.open(`${issuer}/login`)
        await window.addAuthenticator(isUserVerified)
        const { email, recoveryCodes = [] } = holders.pop() ?? { email: '' }
        const code = () => recoveryCodes.pop() ?? ''
        await openLogin(window, email)
        await window.type('#otp', code())
        await window.click('#log-in:enabled')
        await window.click('#add-passkey')
        await window.type('#name', 'Work laptop')
        await window.type('#password', PASSWORD)
        await window.type('#otp', code())
        await window.click('#add')
        await window.shows('#notice', en.passkeyAdded)
        await window.shows('#factors strong', 'Authenticator app', 'Work laptop', 'Recovery codes')

        await window.click('#log-out')
        await window.shows('#notice', en.loggedOut)
        await logIn(window, email)
        if (name === 'chromium' && !isUserVerified) {
          // It looks for passkeys of an unknown account only where the user is verified. A code lets in.
          await window.shows('#passkey-error', en.passkeyFailed)
          await window.type('#otp', code())
          await window.click('#log-in:enabled')
          await window.shows('#name', /./)
          return
        }
        await window.shows('#name', /./)
        const stored = await service.store.users.findByEmail(email)
        const { factors } = await service.store.secondFactors.list(stored?.id ?? '')
        assert.ok(factors.find(({ kind }) => kind === 'passkey')?.lastUsedAt)

        // The browser gives it to another address of the same domain too, whose passkeys the service refuses.
        await logIn(window, email, elsewhere)
        await window.shows('#notice', en.invalidProof)
        assert.deepEqual(reasonsIn(other, email), ['passkey-elsewhere'])

        // This authenticator has one already.
        await window.open(`${issuer}/login`)
        await window.click('#add-passkey')
        await window.type('#name', 'Another')
        await window.type('#password', PASSWORD)
        await window.type('#otp', code())
        await window.click('#add')
        await window.shows('#new-passkey-error', en.passkeyExists)

        await window.open(`${issuer}/login`)
        await window.click(`[aria-label="${en.removeNamed.replace('{name}', 'Work laptop')}"]`)
        await window.type('#password', PASSWORD)
        await window.click('#use-passkey')
        await window.shows('#notice', en.removed)
        await logIn(window, email)
        await window.shows('#notice', en.invalidProof)
        assert.deepEqual(reasonsIn(service, email), ['passkey-unknown'])
      })
    }
  }

  for (const name of BROWSER_NAMES) {
    for (const hasScripts of [true, false]) {
      // These two know passkeys.
      if (hasScripts && name !== 'webkit') continue
      it(`are not shown in ${name} ${hasScripts ? 'with' : 'without'} scripts`, async () => {
        const browser = await own(startBrowser(name, 'en-GB', { hasScripts, trustedKey }))
        await assertNothing(await browser.openWindow(), issuer)
      })
    }
  }

  it('are not shown at an IP address', async () => {
    const browser = await own(startBrowser('chromium', 'en-GB', { trustedKey }))
    await assertNothing(await browser.openWindow(), `https://127.0.0.1:${port}`)
  })

  /** Neither at the login nor at the set-up nor at the account. */
  async function assertNothing(window: Window, origin: string) {
    await window.open(`${origin}/login`)
    await window.click('#two-steps summary')
    await window.shows('#otp', '')
    await window.hides('#use-passkey')
    await window.logIn(await service.newUser())
    await window.click('#set-up')
    await window.shows('#key', /./)
    await window.hides('#passkey-instead')
    const { email, recoveryCodes: [code] = [] } = holders.pop() ?? { email: '' }
    await openLogin(window, email, origin)
    await window.type('#otp', code ?? '')
    await window.click('#log-in:enabled')
    await window.shows('#factors strong', 'Authenticator app', 'Recovery codes')
    await window.hides('#add-passkey')
  }
})

describe('the pages about passkeys', async () => {
  const port = await freePort()
  const url = `https://localhost:${port}`
  const env = { ...UNLIMITED, PORT: String(port), JWT_ISSUER: url, SECOND_FACTOR_ROLES: 'editor' }
  const service = { ...(await own(startTestService('sqlite', env))), url }
  const browser = await own(startChromium([trustFlag(await keyOfCertificate(service))]))
  const visit = createVisits(browser, service)
  const TRUSTING = { ignoreHTTPSErrors: false }

  /** A virtual authenticator of this page. */
  async function addAuthenticator(page: Page) {
    const session = await page.context().newCDPSession(page)
    await session.send('WebAuthn.enable')
    await session.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        ...{ protocol: 'ctap2', transport: 'internal', automaticPresenceSimulation: true },
        ...{ hasResidentKey: true, hasUserVerification: true, isUserVerified: true },
      },
    })
  }

  visit(
    'are usable at every width, in light and dark, with large text; every field is checked before the browser is asked',
    { context: TRUSTING, expected: [401] },
    async ({ page, newUser, fill, logIn, look }) => {
      await addAuthenticator(page)
      const email = await newUser()
      await logIn(email)
      await page.click('#set-up')
      await assertUsable(page, WIDTHS, 'passkey-set-up')
      await page.click('#passkey-instead')
      await isFocused(page, 'title')
      await assertUsable(page, WIDTHS, 'passkey-first')
      await page.click('#add')
      await page.getByText(en.passkeyNameMissing).waitFor()
      await isFocused(page, 'name')
      await page.fill('#name', 'Work laptop')
      await page.fill('#password', 'not the password')
      await page.click('#add')
      await says(page, en.currentPasswordWrong)
      assert.equal(await page.inputValue('#name'), 'Work laptop')
      await page.fill('#password', PASSWORD)
      await page.click('#add')
      await says(page, en.turnedOn)
      await page.click('#stored')
      await page.getByText('Work laptop').waitFor()
      await look('passkey-account')
      await assertUsable(page, WIDTHS, 'passkey-account')

      await page.click('#add-passkey')
      await assertUsable(page, WIDTHS, 'passkey-add')
      await page.click('#use-passkey')
      await isFocused(page, 'name')
      await page.fill('#name', 'Another')
      await page.fill('#password', PASSWORD)
      await page.click('#use-passkey')
      await page.getByText(en.passkeyExists).waitFor()
      await look('passkey-exists')
      await page.click('#cancel')
      await page.click('#add-app')
      await assertUsable(page, WIDTHS, 'passkey-add-app')
      await page.click('#cancel')
      await page.click('#change-password')
      await assertUsable(page, WIDTHS, 'passkey-password')
      await page.click('#cancel')

      await page.click('#log-out')
      await page.locator('#use-passkey').waitFor()
      await look('passkey-login')
      await assertUsable(page, WIDTHS, 'passkey-login')
      await page.fill('#otp', '123456')
      await page.click('#use-passkey')
      await page.getByText(en.passwordMissing).waitFor()
      await fill(email)
      // With the keyboard alone.
      await page.focus('#otp')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Tab')
      await isFocused(page, 'use-passkey')
      await page.keyboard.press('Enter')
      await page.locator('#log-out').waitFor()
    },
  )

  visit(
    'say in German that the browser has none, and take a code',
    { context: { ...TRUSTING, locale: 'de-DE' }, expected: [403] },
    async ({ page, newUser, fill, picture }) => {
      await addAuthenticator(page)
      const email = await newUser()
      const { id = '' } = (await service.store.users.findByEmail(email)) ?? {}
      await service.store.users.set(id, { role: 'editor' }, changeAt(service.now()))
      await makeTemporary(service, email)
      await page.click('#two-steps summary')
      await fill(email)
      await page.click('#use-passkey')
      await page.getByText(de.passkeyFailed).waitFor()
      await picture('passkey-failed-de')
      await page.click('#log-in')
      await says(page, de.bothDemanded)
      await page.click('#passkey-instead')
      await assertUsable(page, WIDTHS, 'passkey-both-de')
      await page.fill('#password', PASSWORD)
      await page.fill('#new-password', 'seven green boats at noon')
      await page.fill('#name', 'Laptop im Büro')
      await page.click('#add')
      await says(page, de.turnedOn)
      await page.click('#stored')
      await page.getByText('Laptop im Büro').waitFor()
    },
  )
})
