// What users do on the page, in Chromium, Firefox and WebKit.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import de from '../../src/page/texts/de.json' with { type: 'json' }
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { PASSWORD, startTestService, type TestService } from '../service.ts'
import { byEmail, changeAt } from '../storage/fixtures.ts'
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

type Visit = { browser: Browser; window: Window; email: string; userId: string }

let service: TestService
let users = 0
const application = createServer((_, response) => response.end('the application'))
let applicationUrl: string

before(async () => {
  await new Promise<void>(resolve => application.listen(0, '127.0.0.1', resolve))
  applicationUrl = `http://127.0.0.1:${(application.address() as AddressInfo).port}`
  // The other suites of the page use SQLite.
  service = await startTestService('postgres', {
    RETURN_TO_ORIGINS: applicationUrl,
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

const refreshesOf = (userId: string) =>
  service.logged().filter(line => line.event === 'session.refreshed' && line.userId === userId)

/** Starts a browser for a suite. Each test is a visit of a new user that begins with the form. */
function openVisits(name: BrowserName, language: string) {
  let browser: Browser
  let window: Window
  before(async () => {
    browser = await startBrowser(name, language)
    window = await browser.openWindow()
  })
  after(() => browser?.stop())

  return (body: (visit: Visit) => Promise<void>) => async () => {
    const email = `kate${++users}@example.com`
    const userId = await service.addUser(email, { name: 'Kate' })
    await window.open(`${service.url}/login`)
    await window.forgetCookies()
    await window.reload()
    await window.shows('#form', /./)
    await body({ browser, window, email, userId })
  }
}

describe('the page', { concurrency: true }, () => {
  for (const name of BROWSER_NAMES) {
    describe(`in ${name}`, { concurrency: 1 }, () => {
      const visit = openVisits(name, 'en-GB')

      test(
        'logs in and out',
        visit(async ({ window, email }) => {
          await logIn(window, email)
          await window.shows('#name', 'Kate')
          await window.shows('#user-email', email)
          await window.hides('#form')
          const kept = `[document.getElementById('password').value, document.cookie]`
          assert.deepEqual(await window.evaluate(kept), ['', ''])
          await window.click('#log-out')
          await window.shows('#notice', en.loggedOut)
          await window.hides('#account')
          await window.reload()
          await window.shows('#form', /./)
          await window.hides('#account')
        }),
      )

      test(
        'focuses a wrong password, and takes the right one',
        visit(async ({ window, email }) => {
          await logIn(window, email, 'not the password')
          await window.shows('#notice', en.invalidCredentials)
          assert.equal(await window.evaluate('document.activeElement.id'), 'password')
          await window.type('#password', PASSWORD + ENTER)
          await window.shows('#account', /./)
        }),
      )

      test(
        'counts down a block, and logs in after it',
        visit(async ({ window, email }) => {
          for (let i = 0; i < 5; i++) await service.login(email, 'wrong')
          await logIn(window, email)
          const countdown = en.countdown.replace('{time}', '1[45]:\\d\\d')
          const [first] = await window.shows('#log-in', RegExp(countdown))
          await window.shows('#log-in', RegExp(`^(?!${first})${countdown}`))
          await window.hides('#log-in:enabled')
          await window.evaluate('(now => { window.Date.now = () => now() + 900_000 })(Date.now)')
          await window.shows('#log-in:enabled', en.logIn)
          await byEmail(service.store).unlock(email, changeAt(service.now()))
          await logIn(window, email)
          await window.shows('#account', /./)
        }),
      )

      test(
        'lists the sessions, ends one, then all others',
        visit(async ({ window, email }) => {
          for (let i = 0; i < 3; i++) await service.login(email, PASSWORD)
          await logIn(window, email)
          await window.shows('#sessions li', DEVICES[name], /./, /./, /./)
          await window.shows('#sessions li:first-child .badge', en.thisDevice)
          await window.click('#sessions li:nth-child(2) button')
          await window.shows('#sessions li', DEVICES[name], /./, /./)
          await window.shows('#status', en.oneEnded)
          await window.click('#end-others')
          await window.shows('#sessions li', DEVICES[name])
          await window.hides('#end-others')
          await window.reload()
          await window.shows('#sessions li', DEVICES[name])
        }),
      )

      test(
        'renews the session, and shows it after a reload',
        visit(async ({ window, email, userId }) => {
          // Keeps the function that would run after 20 minutes.
          await window.evaluate(`(wait => {
            window.setTimeout = (run, ms, ...more) => {
              if (ms < 600_000) return wait(run, ms, ...more)
              window.renew = run
            }
          })(window.setTimeout)`)
          await logIn(window, email)
          await window.shows('#sessions li', /./)
          assert.equal(refreshesOf(userId).length, 0)
          await window.evaluate('window.renew()')
          await eventually(async () => assert.equal(refreshesOf(userId).length, 1))
          await window.reload()
          await window.shows('#user-email', email)
          await window.shows('#sessions li', /./)
        }),
      )

      test(
        'goes where the application asked for, if that is allowed',
        visit(async ({ browser, window, email }) => {
          const target = `${applicationUrl}/orders?page=2#top`
          const page = `${service.url}/login?return_to=`
          await window.open(page + encodeURIComponent(target))
          await logIn(window, email)
          await eventually(async () => assert.equal(await window.url(), target))
          // With a live session, without the form.
          const other = await browser.openWindow()
          await other.open(page + encodeURIComponent(target))
          await eventually(async () => assert.equal(await other.url(), target))
          await window.open(`${page}https://app.example.com/`)
          await window.shows('#user-email', email)
          await window.shows('#notice', en.returnRefused.replace('{host}', 'app.example.com'))
          await window.hides('#continue')
        }),
      )

      test(
        'replaces a temporary password, then the new one from the account',
        visit(async ({ window, email }) => {
          await makeTemporary(service, email)
          await logIn(window, email)
          await window.shows('#notice', en.temporaryPassword)
          await window.hides('#email, #password')
          const focused = 'document.activeElement.id'
          assert.equal(await window.evaluate(focused), 'new-password')
          await window.type('#new-password', `seven77${ENTER}`)
          await window.shows('#new-password-error', en.newPasswordShort.replace('{min}', '8'))
          await window.type('#new-password', `first new password${ENTER}`)
          await window.shows('#notice', en.passwordChanged)
          await window.click('#account a[href="#change-password"]')
          await window.shows('#for-user', `for ${email}`)
          await window.type('#password', 'first new password')
          await window.type('#new-password', 'second new password')
          await window.click('#reveal-new')
          assert.equal(
            await window.evaluate(`document.getElementById('new-password').type`),
            'text',
          )
          await window.click('#log-in:enabled')
          await window.shows('#notice', en.passwordChanged)
          await window.shows('#sessions li', /./)
          await window.click('#log-out')
          await window.shows('#notice', en.loggedOut)
          await logIn(window, email, 'second new password')
          await window.shows('#account', /./)
        }),
      )

      test(
        'changes a password at the well-known address, and goes back',
        visit(async ({ window, email }) => {
          await window.open(`${service.url}/.well-known/change-password`)
          await window.shows('#form-title', en.changePassword)
          await window.click('#cancel')
          await window.shows('#form-title', en.loginTitle)
          await window.open(`${service.url}/.well-known/change-password`)
          await window.type('#new-password', 'another new password')
          await logIn(window, email)
          await window.shows('#notice', en.passwordChanged)
          assert.equal(await window.url(), `${service.url}/login`)
        }),
      )

      test(
        'shows the login and the logout of another window',
        visit(async ({ browser, window, email }) => {
          const other = await browser.openWindow()
          await other.open(`${service.url}/login`)
          await other.shows('#form', /./)
          await logIn(window, email)
          await window.shows('#account', /./)
          await other.shows('#user-email', email)
          await window.click('#log-out')
          for (const one of [window, other]) await one.shows('#notice', en.loggedOut)
          await other.hides('#account')
        }),
      )

      test(
        'is not cut off on a phone with text of twice the size',
        visit(async ({ browser, email }) => {
          const narrow = await browser.openWindow()
          await narrow.resize(320, 700)
          await narrow.open(`${service.url}/login`)
          // Not every browser makes a window this narrow. Then the text is larger in the same proportion.
          const size = 'document.documentElement.style.fontSize'
          await narrow.evaluate(`${size} = (200 * innerWidth) / 320 + '%'`)
          const overflow = 'document.documentElement.scrollWidth - document.body.offsetWidth'
          await narrow.shows('#form', /./)
          assert.equal(await narrow.evaluate(overflow), 0)
          await logIn(narrow, email)
          await narrow.shows('#sessions li', /./)
          assert.equal(await narrow.evaluate(overflow), 0)
          await narrow.click('#account a[href="#change-password"]')
          await narrow.shows('#form-title', en.changePassword)
          assert.equal(await narrow.evaluate(overflow), 0)
        }),
      )

      describe('for a user that prefers German', () => {
        const visit = openVisits(name, 'de-AT')

        test(
          'is in German',
          visit(async ({ window, email }) => {
            await window.shows('#log-in', de.logIn)
            await logIn(window, email, 'nicht das Passwort')
            await window.shows('#notice', de.invalidCredentials)
            await logIn(window, email)
            await window.shows('#log-out', de.logOut)
            assert.equal(await window.evaluate('document.documentElement.lang'), 'de')
            await window.click('#account a[href="#change-password"]')
            await window.type('#password', PASSWORD)
            await window.type('#new-password', PASSWORD + ENTER)
            await window.shows('#new-password-error', de.newPasswordUnchanged)
          }),
        )
      })
    })
  }
})
