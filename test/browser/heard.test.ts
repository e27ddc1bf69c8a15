// What the screen reader Orca speaks at each step, in Firefox and Chromium.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { PASSWORD, startTestService, type TestService } from '../service.ts'
import { makeTemporary } from './browser.ts'
import { type ScreenReader, startScreenReader } from './screen-reader.ts'
import { type Browser, eventually, startBrowser, type Window } from './webdriver.ts'

const ENTER = '\uE007'
// A wait that ends after midnight is told with its day.
const TIME = '(\\d+ \\w+ \\d{4}, )?\\d\\d:\\d\\d'
const TOO_MANY = RegExp(en.tooManyAttempts.replace('{time}', TIME))

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
        browser = await startBrowser(name, 'en-GB', reader.env)
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
        await hears(() => window.click('#log-in:enabled'), en.emailInvalid, en.passwordShort)
      })

      test('a wrong password, each time', async () => {
        await hears(() => logIn('kate', 'not the password'), en.invalidCredentials)
        await window.shows('#notice', en.invalidCredentials)
        await hears(() => window.type('#password', `wrong again${ENTER}`), en.invalidCredentials)
      })

      test('a login', async () => {
        await hears(() => logIn('kate'), en.accountTitle)
      })

      test('a session that the user has ended', async () => {
        await service.login('kate@example.com', PASSWORD)
        await window.reload()
        await window.shows('#sessions li', /./, /./)
        await hears(() => window.click('#sessions li:nth-child(2) button'), en.oneEnded)
      })

      test('a logout', async () => {
        await hears(() => window.click('#log-out'), en.loggedOut)
      })

      test('failed attempts since the last login, after the next one', async () => {
        await service.login('kate@example.com', 'wrong password')
        await hears(() => logIn('kate'), en.failures)
      })

      test('a session that was ended elsewhere', async () => {
        await service.database.rows('delete from sessions')
        await hears(
          () => window.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`),
          en.sessionEnded,
        )
      })

      test('a temporary password, and what is wrong with the new one', async () => {
        await makeTemporary(service, 'kate@example.com')
        await hears(() => logIn('kate'), en.temporaryPassword)
        await hears(() => window.type('#new-password', PASSWORD + ENTER), en.newPasswordUnchanged)
        await hears(
          () => window.type('#new-password', `seven green boats${ENTER}`),
          en.passwordChanged,
        )
        await window.click('#log-out')
      })

      test('the beginning and the end of a wait', async () => {
        for (let i = 0; i < 5; i++) await service.login('bob@example.com', 'wrong')
        const spoken = await hears(() => logIn('bob'), TOO_MANY)
        assert.equal(spoken.filter(text => TOO_MANY.test(text)).length, 1, spoken.join(' | '))
        await hears(
          () => window.evaluate('(now => { window.Date.now = () => now() + 900_000 })(Date.now)'),
          en.tryAgainNow,
        )
      })
    })
  }
})
