// What the screen reader Orca speaks at each step, in Firefox and Chromium.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { PASSWORD, startTestService, type TestService } from '../support/service.ts'
import { makeTemporary } from './browser.ts'
import { type ScreenReader, startScreenReader } from './screen-reader.ts'
import { type Browser, eventually, startBrowser, type Window } from './webdriver.ts'

const ENTER = '\uE007'
const TOO_MANY = en.tooManyAttempts.replace('{wait}', '15 minutes')

describe('the page, heard', { concurrency: 1 }, () => {
  for (const name of ['firefox', 'chromium'] as const) {
    describe(`in ${name}`, { concurrency: 1 }, () => {
      let service: TestService
      let reader: ScreenReader
      let browser: Browser
      let window: Window
      before(async () => {
        service = await startTestService('sqlite')
        reader = await startScreenReader()
        browser = await startBrowser(name, 'en-GB', { screen: reader.env })
        window = await browser.openWindow()
        for (const user of ['kate', 'bob']) await service.addUser(`${user}@example.com`)
      })
      after(async () => {
        await browser?.stop()
        await reader?.stop()
        await service?.stop()
      })

      /** Takes a step, and waits until these sentences have been spoken. Returns all that were. */
      async function hears(step: () => Promise<unknown>, ...expected: (string | RegExp)[]) {
        const before = reader.spoken().length
        await step()
        return eventually(async () => {
          const spoken = reader.spoken().slice(before)
          for (const one of expected) {
            const isSpoken = spoken.some(text =>
              typeof one === 'string' ? text.includes(one) : one.test(text),
            )
            assert.ok(isSpoken, `"${one}" is not among: ${spoken.join(' | ')}`)
          }
          return spoken
        })
      }

      async function logIn(user: string, password = PASSWORD): Promise<void> {
        await window.type('#email', `${user}@example.com`)
        await window.type('#password', password)
        await window.click('#log-in:enabled')
      }

      test('an untouched form is not called invalid', async () => {
        const spoken = await hears(async () => {
          await window.open(`${service.url}/login`)
          await window.click('#email')
        }, /^Email entry.* required/)
        assert.ok(!spoken.some(text => text.includes('invalid')), spoken.join(' | '))
      })

      test('an empty form: what to enter', async () => {
        await hears(() => window.click('#log-in:enabled'), en.emailInvalid)
      })

      test('a wrong password, each time', async () => {
        await hears(() => logIn('kate', 'not the password'), en.invalidCredentials)
        await window.shows('#notice', en.invalidCredentials)
        // Of a page that equals the one before it, Orca may read no more than the title.
        const again = new RegExp(`${en.invalidCredentials}|^Finished loading Error: ${en.logIn}`)
        await hears(() => window.type('#password', `wrong again${ENTER}`), again)
      })

      test('a login', async () => {
        await hears(() => logIn('kate'), 'You are logged in.')
      })

      test('a change of the password: its title, what is wrong, and its success', async () => {
        await hears(() => window.click('#change-password'), en.changePassword)
        await window.type('#password', PASSWORD)
        await hears(() => window.type('#new-password', PASSWORD + ENTER), en.newPasswordUnchanged)
        await window.type('#password', PASSWORD)
        await hears(
          () => window.type('#new-password', `seven green boats${ENTER}`),
          en.passwordChanged,
        )
      })

      test('a session that the user has ended', async () => {
        await service.login('kate@example.com', 'seven green boats')
        await window.open(`${service.url}/login`)
        await hears(() => window.click('.session button'), en.oneEnded)
      })

      test('a logout', async () => {
        await hears(() => window.click('#log-out'), en.loggedOut)
      })

      test('a temporary password', async () => {
        await makeTemporary(service, 'kate@example.com')
        await hears(() => logIn('kate', 'seven green boats'), en.temporary)
      })

      test('the beginning and the end of a wait', async () => {
        for (let i = 0; i < 5; i++) await service.login('bob@example.com', 'wrong')
        await window.open(`${service.url}/login`)
        await hears(() => logIn('bob'), TOO_MANY)
        await hears(
          () => window.evaluate('(now => { window.Date.now = () => now() + 900_000 })(Date.now)'),
          en.tryAgainNow,
        )
      })
    })
  }
})
