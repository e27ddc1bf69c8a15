// What users do on the pages, in Chromium, Firefox and WebKit, with and without scripts.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import de from '../../src/page/texts/de.json' with { type: 'json' }
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { PASSWORD, startTestService, type TestService } from '../support/service.ts'
import { makeTemporary } from './browser.ts'
import {
  BROWSER_NAMES,
  type Browser,
  type BrowserName,
  eventually,
  startBrowser,
  type Window,
} from './webdriver.ts'

const ENTER = '\uE007'
/** How the list of sessions calls a browser. */
const DEVICES = { chromium: /Chrom/, firefox: /Firefox/, webkit: /Safari/ }
const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'

type Visit = { browser: Browser; window: Window; email: string }

let service: TestService
let users = 0
const application = createServer((_, response) => response.end('the application'))
let applicationUrl: string

before(async () => {
  await new Promise<void>(resolve => application.listen(0, '127.0.0.1', resolve))
  applicationUrl = `http://127.0.0.1:${(application.address() as AddressInfo).port}`
  // The other suites of the pages use SQLite.
  service = await startTestService('postgres', {
    RETURN_TO_ORIGINS: applicationUrl,
    CODE_CALLBACKS: `${applicationUrl}/in`,
    THROTTLE_CLIENT_FAILURES: '1000',
  })
})
after(async () => {
  application.close()
  await service?.stop()
})

async function logIn(window: Window, email: string, password = PASSWORD): Promise<void> {
  await window.type('#email', email)
  await window.type('#password', password)
  await window.click('#log-in:enabled')
}

async function change(window: Window, current: string, next: string): Promise<void> {
  await window.type('#password', current)
  await window.type('#new-password', next)
  await window.click('#save:enabled')
}

const goesTo = (window: Window, address: RegExp) =>
  eventually(async () => assert.match(String(await window.url()), address))

/** Starts a browser for a suite. Each test is a visit of a new user that begins with the form. */
function openVisits(name: BrowserName, language: string, hasScripts: boolean) {
  let browser: Browser
  let window: Window
  before(async () => {
    browser = await startBrowser(name, language, { hasScripts })
    window = await browser.openWindow()
  })
  after(() => browser?.stop())

  return (body: (visit: Visit) => Promise<void>) => async () => {
    const email = `kate${++users}@example.com`
    await service.addUser(email, { name: 'Kate' })
    await window.open(`${service.url}/login`)
    await window.forgetCookies()
    await window.open(`${service.url}/login`)
    await window.shows('#form', /./)
    await body({ browser, window, email })
  }
}

describe('the pages', { concurrency: true }, () => {
  for (const name of BROWSER_NAMES) {
    for (const hasScripts of [true, false]) {
      describe(`in ${name} ${hasScripts ? 'with' : 'without'} scripts`, { concurrency: 1 }, () => {
        const visit = openVisits(name, hasScripts ? 'en-GB' : 'de-AT', hasScripts)
        const texts = hasScripts ? en : de

        test(
          'log in and out, and list the sessions',
          visit(async ({ window, email }) => {
            await service.login(email, PASSWORD)
            await logIn(window, email)
            await window.shows('#name', 'Kate')
            await window.shows('.session', DEVICES[name], /./)
            await window.shows('.badge', texts.thisDevice)
            await window.click('.session button')
            await window.shows('#notice', texts.oneEnded)
            await window.shows('.session', DEVICES[name])
            await window.click('#log-out')
            await window.shows('#notice', texts.loggedOut)
            await window.open(`${service.url}/login`)
            await window.hides('#log-out')
          }),
        )

        test(
          'say that the password is wrong, with the focus on it, and take the right one',
          visit(async ({ window, email }) => {
            await logIn(window, email, 'not the password')
            await window.shows('#notice', texts.invalidCredentials)
            await eventually(async () =>
              assert.equal(await window.evaluate('document.activeElement.id'), 'notice'),
            )
            await window.type('#password', PASSWORD + ENTER)
            await window.shows('#name', 'Kate')
          }),
        )

        test(
          'say how long to wait, and log in after it',
          visit(async ({ window, email }) => {
            for (let i = 0; i < 5; i++) await service.login(email, 'wrong')
            await logIn(window, email)
            const wait = hasScripts ? '15 minutes' : '15 Minuten'
            await window.shows('#notice', texts.tooManyAttempts.replace('{wait}', wait))
            if (hasScripts) {
              const countdown = en.countdown.replace('{time}', '1[45]:\\d\\d')
              const [first] = await window.shows('#log-in', RegExp(countdown))
              await window.shows('#log-in', RegExp(`^(?!${first})${countdown}`))
              await window.hides('#log-in:enabled')
              await window.evaluate(
                '(now => { window.Date.now = () => now() + 900_000 })(Date.now)',
              )
              await window.shows('#notice', en.tryAgainNow)
            }
            await byEmail(service.store).unlock(email, changeAt(service.now()))
            await logIn(window, email)
            await window.shows('#name', 'Kate')
          }),
        )

        test(
          'replace a temporary password, then the new one from the account',
          visit(async ({ window, email }) => {
            await makeTemporary(service, email)
            await logIn(window, email)
            await window.shows('#notice', texts.temporary)
            await change(window, PASSWORD, PASSWORD)
            await window.shows('#new-password-error', texts.newPasswordUnchanged)
            await change(window, PASSWORD, 'first new password')
            await window.shows('#notice', texts.passwordChanged)
            await window.click('#change-password')
            await window.shows('h1', texts.changePassword)
            assert.equal(await window.evaluate(`document.getElementById('email').value`), email)
            await change(window, 'first new password', 'second new password')
            await window.shows('#notice', texts.passwordChanged)
            await window.click('#log-out')
            await window.shows('#notice', texts.loggedOut)
            await logIn(window, email, 'second new password')
            await window.shows('#name', 'Kate')
          }),
        )

        test(
          'go where the application asked for, with a code if it wants one',
          visit(async ({ browser, window, email }) => {
            const target = `${applicationUrl}/orders?page=2#top`
            const page = `${service.url}/login?return_to=`
            await window.open(page + encodeURIComponent(target))
            await logIn(window, email)
            await eventually(async () => assert.equal(await window.url(), target))
            // With a live session, without the form; also after a link on another site.
            const other = await browser.openWindow()
            await other.open(page + encodeURIComponent(target))
            await eventually(async () => assert.equal(await other.url(), target))
            const callback = `${applicationUrl}/in`
            await other.open(`${page}${encodeURIComponent(callback)}&challenge=${CHALLENGE}`)
            await goesTo(other, /\/in\?code=[\w-]{43}$/)
            await window.open(`${page}https://app.example.com/`)
            await window.shows('#notice', texts.returnRefused.replace('{host}', 'app.example.com'))
          }),
        )

        test(
          'change a password at the well-known address',
          visit(async ({ window, email }) => {
            await window.open(`${service.url}/.well-known/change-password`)
            await window.click('#cancel')
            await window.shows('h1', texts.loginTitle)
            await window.open(`${service.url}/.well-known/change-password`)
            await window.type('#email', email)
            await change(window, PASSWORD, 'another new password')
            await window.shows('#notice', texts.passwordChanged)
          }),
        )

        if (!hasScripts) return

        test(
          'are not cut off on a phone with text of twice the size',
          visit(async ({ browser, email }) => {
            const narrow = await browser.openWindow()
            await narrow.resize(320, 700)
            // Not every browser makes a window this narrow. Then the text is larger in the same proportion.
            const assertWhole = async () => {
              const size = 'document.documentElement.style.fontSize'
              await narrow.evaluate(`${size} = (200 * innerWidth) / 320 + '%'`)
              const overflow = 'document.documentElement.scrollWidth - document.body.offsetWidth'
              assert.equal(await narrow.evaluate(overflow), 0)
            }
            await narrow.open(`${service.url}/login`)
            await assertWhole()
            await logIn(narrow, email)
            await narrow.shows('.session', /./)
            await assertWhole()
            await narrow.open(`${service.url}/login/password`)
            await assertWhole()
          }),
        )
      })
    }
  }
})
