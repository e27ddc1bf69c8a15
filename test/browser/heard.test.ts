// What the screen reader Orca speaks at each step, in Firefox and Chromium.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseSecret } from '../../src/login/totp.ts'
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { createAuthenticator } from '../support/authenticator.ts'
import { startConsole } from '../support/console.ts'
import { own } from '../support/own.ts'
import { eventually } from '../support/postgres-server.ts'
import { PASSWORD } from '../support/service.ts'
import { makeTemporary } from '../support/visitor.ts'
import { startScreenReader } from './screen-reader.ts'
import { startBrowser } from './webdriver.ts'

const ENTER = '\uE007'
const TAB = '\uE004'
/** Orca sometimes passes over a page. Then the test fails soon, and can run once more. */
const SPOKEN_WITHIN_MS = 60_000
const TOO_MANY = en.tooManyAttempts.replace('{wait}', '15 minutes')

describe('the page, heard', async () => {
  const service = await own(startConsole('sqlite'))
  const reader = await own(startScreenReader())
  for (const name of ['firefox', 'chromium'] as const) {
    test(`in ${name}`, async t => {
      const browser = await own(startBrowser(name, 'en-GB', { screen: reader.env }))
      const window = await browser.openWindow()
      const [kate, bob, ann] = [
        `kate@${name}.example.com`,
        `bob@${name}.example.com`,
        `ann@${name}.example.com`,
      ]
      for (const email of [kate, bob, ann]) await service.addUser(email)

      /** Takes a step, and waits until this sentence has been spoken. Returns all that were. */
      async function hears(step: () => Promise<unknown>, expected: string | RegExp) {
        const before = reader.spoken().length
        await step()
        return eventually(async () => {
          const spoken = reader.spoken().slice(before)
          const isSpoken = spoken.some(text =>
            typeof expected === 'string' ? text.includes(expected) : expected.test(text),
          )
          assert.ok(isSpoken, `"${expected}" is not among: ${spoken.join(' | ')}`)
          return spoken
        }, SPOKEN_WITHIN_MS)
      }

      await t.test('an untouched form is not called invalid', async () => {
        const spoken = await hears(async () => {
          await window.open(`${service.url}/login`)
          await window.click('#email')
        }, /^Email entry.* required/)
        assert.ok(!spoken.some(text => text.includes('invalid')), spoken.join(' | '))
      })

      await t.test('an empty form: what to enter', async () => {
        await hears(() => window.click('#log-in:enabled'), en.emailInvalid)
      })

      await t.test('a wrong password, each time', async () => {
        await hears(() => window.logIn(kate, 'not the password'), en.invalidProof)
        await window.shows('#notice', en.invalidProof)
        // Of a page that equals the one before it, Orca may read no more than the title.
        const again = new RegExp(`${en.invalidProof}|^Finished loading Error: ${en.logIn}`)
        await hears(() => window.type('#password', `wrong again${ENTER}`), again)
      })

      await t.test('a login', async () => {
        await hears(() => window.logIn(kate), 'You are logged in.')
      })

      await t.test(
        'a change of the password: its title, what is wrong, and its success',
        async () => {
          await hears(() => window.click('#change-password'), en.changePassword)
          await window.type('#password', PASSWORD)
          await hears(() => window.type('#new-password', PASSWORD + ENTER), en.newPasswordUnchanged)
          await window.type('#password', PASSWORD)
          await hears(
            () => window.type('#new-password', `seven green boats${ENTER}`),
            en.passwordChanged,
          )
        },
      )

      await t.test('a session that the user has ended', async () => {
        await service.login(kate, 'seven green boats')
        await window.open(`${service.url}/login`)
        await hears(() => window.click('.session button'), en.oneEnded)
      })

      await t.test('a logout', async () => {
        await hears(() => window.click('#log-out'), en.loggedOut)
      })

      await t.test('a temporary password', async () => {
        await makeTemporary(service, kate)
        await hears(() => window.logIn(kate, 'seven green boats'), en.temporary)
      })

      await t.test(
        'a set-up of two-step login: its title, a wrong code, the recovery codes',
        async () => {
          await window.open(`${service.url}/login`)
          await window.logIn(ann)
          await hears(() => window.click('#set-up'), en.setUpTitle)
          const secret = await window.evaluate(`document.querySelector('[name=secret]').value`)
          const app = createAuthenticator(service.now, parseSecret(String(secret)) ?? undefined)
          const turnOn = async (otp: string) => {
            await window.type('#password', PASSWORD)
            await window.type('#new-otp', otp + ENTER)
          }
          await hears(() => turnOn(app.wrongCode()), en.newOtpWrong)
          const spoken = await hears(() => turnOn(app.code()), 'List with 10 items')
          assert.ok(spoken.includes(en.turnedOn), spoken.join(' | '))
          await hears(() => window.click('[data-copied]'), /^Copied/)
          await window.click('#stored')
          await window.click('#log-out')
        },
      )

      await t.test('the field for a code, its switch, and its refusal', async () => {
        await window.shows('#notice', en.loggedOut)
        await window.open(`${service.url}/login`)
        // Behind the eye of the password. It is open, because this browser has used it.
        const opened = await hears(() => window.type('#password', TAB + TAB), en.usesTwoSteps)
        assert.match(opened.join(' '), /I use two-step login.* expanded/)
        await hears(() => window.click('.switch'), /^Recovery code entry/)
        await hears(() => window.logIn(ann), en.invalidProof)
      })

      await t.test('the beginning and the end of a wait', async () => {
        for (let i = 0; i < 5; i++) await service.login(bob, 'wrong')
        await window.open(`${service.url}/login`)
        await hears(() => window.logIn(bob), TOO_MANY)
        await hears(window.skipWait, en.tryAgainNow)
      })

      await t.test('the console: why the user must wait, and that the wait has ended', async () => {
        const { email } = await service.newPerson('help desk')
        const { id } = (await service.store.users.findByEmail(bob)) ?? {}
        for (let i = 0; i < 15; i++)
          await service.login(bob, 'wrong', `127.7.0.${Math.floor(i / 5)}`)
        await window.open(`${service.adminUrl}/console/people/${id}`)
        await window.logIn(email)
        await window.shows('#verdict', /must wait/)
        // To the end of the page: while it is read, the next one is not heard.
        const read = await hears(() => window.reload(), /Now: /)
        assert.ok(
          read.some(text => text.includes(`${bob} must wait until`)),
          read.join(' | '),
        )
        await hears(() => window.click('.verdict button'), 'Unlocked.')
      })
    })
  }
})
