// Changing the password on the page: a temporary one, from the account, and from a password manager.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { LOGIN, PASSWORD } from '../service.ts'
import { focused, makeTemporary, openVisits, says, sessionsOf } from './browser.ts'

const NEW_PASSWORD = 'seven green boats at noon'
const OTHER_PASSWORD = 'eight blue boats at night'
const CHANGE = '/api/v1/auth/password'
const WELL_KNOWN = '/.well-known/change-password'
const APP = 'https://app.example.com'
const CHANGED = 'Your password is changed. All other devices are logged out.'
const LOST = 'net::ERR_CONNECTION_RESET'

const countOf = (calls: string[], call: string) => calls.filter(made => made === call).length

async function openChange(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Change password' }).click()
  await page.getByRole('heading', { name: 'Change password' }).waitFor()
}

async function save(page: Page, newPassword = NEW_PASSWORD): Promise<void> {
  await page.fill('#new-password', newPassword)
  await page.click('#log-in')
}

/** The service gets the next request to this path, but its answer never arrives. */
const loseAnswer = (page: Page, path: string) =>
  page.route(
    `**${path}`,
    async route => {
      await route.fetch()
      await route.abort('connectionreset')
    },
    { times: 1 },
  )

/** The service never gets the next request to this path. */
const loseRequest = (page: Page, path: string) =>
  page.route(`**${path}`, route => route.abort('connectionreset'), { times: 1 })

describe('a temporary password in a browser', () => {
  const visit = openVisits({ RETURN_TO_ORIGINS: APP })

  test(
    'is replaced in the same form, without typing it again',
    visit(
      async ({ page, context, service, newUser, fill, calls, look }) => {
        const email = await newUser()
        await makeTemporary(service, email)
        await fill(email)
        await page.click('#log-in')
        await says(page, 'Your password is temporary. Choose your own to continue.')
        assert.equal(await page.innerText('h1:visible'), 'Choose a new password')
        assert.equal(await page.title(), 'Choose a new password · Login Service')
        assert.equal(await page.innerText('#for-user'), `for ${email}`)
        assert.equal(await focused(page), 'new-password')
        assert.equal(await page.locator('input:visible').count(), 1)
        assert.deepEqual(await context.cookies(), [])
        await look('temporary-password')

        await save(page, PASSWORD)
        const error = page.locator('#new-password-error')
        await error.filter({ hasText: /^This is the password you have now/ }).waitFor()
        await save(page)
        await sessionsOf(page).waitFor()
        await says(page, CHANGED)
        assert.equal(await focused(page), 'name')
        assert.equal(countOf(calls(), 'POST /login'), 1)
        assert.equal((await service.login(email, PASSWORD)).status, 401)
        assert.equal((await service.login(email, NEW_PASSWORD)).status, 200)
      },
      { expected: [403, 400] },
    ),
  )

  test(
    'leads to the application, after it is replaced',
    visit(
      async ({ page, service, newUser, fill }) => {
        const email = await newUser()
        await makeTemporary(service, email)
        await fill(email)
        await page.click('#log-in')
        await says(page, /temporary/)
        await save(page)
        await page.waitForURL(`${APP}/start`)
      },
      { path: `/login?return_to=${APP}/start`, elsewhere: [APP], expected: [403] },
    ),
  )

  for (const [status, sentence] of [
    [401, 'Incorrect email or password.'],
    [429, /^Too many attempts/],
  ] as const) {
    test(
      `that is refused with ${status} when it is replaced leads back to the login`,
      visit(
        async ({ page, service, newUser, fill, logIn }) => {
          const email = await newUser()
          await makeTemporary(service, email)
          await fill(email)
          await page.click('#log-in')
          await says(page, /temporary/)
          await page.route(`**${CHANGE}`, route => route.fulfill({ status, json: {} }))
          await save(page)
          await says(page, sentence)
          assert.equal(await page.innerText('h1:visible'), 'Log in')
          assert.equal(await page.inputValue('#email'), email)
          assert.equal(await page.locator('#new-password').count(), 0)
          assert.equal(await focused(page), status === 401 ? 'password' : 'notice')
          await logIn(await newUser())
        },
        { expected: [403, status] },
      ),
    )
  }

  test(
    'need not be replaced: the user can go back to the login',
    visit(
      async ({ page, service, newUser, fill, logIn }) => {
        const email = await newUser()
        await makeTemporary(service, email)
        await fill(email)
        await page.click('#log-in')
        await says(page, /temporary/)
        await page.click('#cancel')
        await page.getByRole('heading', { name: 'Log in' }).waitFor()
        assert.deepEqual(
          await page.locator('input').evaluateAll(all => all.map(it => 'value' in it && it.value)),
          ['', ''],
        )
        assert.equal(await focused(page), 'email')
        await logIn(await newUser())
      },
      { expected: [403] },
    ),
  )
})

describe('a change of the password in a browser', () => {
  const visit = openVisits()

  test(
    'starts at the account, and needs the keyboard only',
    visit(async ({ page, service, newUser, logIn, look }) => {
      const email = await newUser()
      await service.login(email, PASSWORD)
      await logIn(email)
      await page.keyboard.press('Tab')
      await page.keyboard.press('Enter')
      await page.locator('#password:focus').waitFor()
      assert.equal(await page.title(), 'Change password · Login Service')
      await look('change-password')
      await page.keyboard.type(PASSWORD)
      await page.keyboard.press('Enter')
      assert.equal(await focused(page), 'new-password')
      await page.keyboard.type(NEW_PASSWORD)
      await page.keyboard.press('Tab')
      await page.keyboard.press('Space')
      assert.equal(await page.getAttribute('#new-password', 'type'), 'text')
      assert.equal(await page.getAttribute('#password', 'type'), 'password')
      await look('new-password-shown')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Enter')
      await sessionsOf(page).waitFor()
      await says(page, CHANGED)
      await look('password-changed')
      assert.equal(await sessionsOf(page).count(), 1)
      assert.equal(new URL(page.url()).hash, '')
      assert.equal(await page.locator('input[type=text]').count(), 0)
      const found = await page.evaluate<string>(
        `JSON.stringify([document.documentElement.outerHTML, history.state,
          [...document.querySelectorAll('input')].map(it => it.value)])`,
      )
      for (const secret of [PASSWORD, NEW_PASSWORD]) assert.ok(!found.includes(secret))
    }),
  )

  test(
    'has fields for password managers, which the login does not have',
    visit(async ({ page, newUser, logIn }) => {
      const fields = () =>
        page
          .locator('#form input')
          .evaluateAll(inputs => inputs.map(input => input.getAttribute('autocomplete')))
      assert.deepEqual(await fields(), ['username', 'current-password'])
      const email = await newUser()
      await logIn(email)
      await openChange(page)
      assert.deepEqual(await fields(), ['username', 'current-password', 'new-password'])
      assert.equal(await page.inputValue('#email'), email)
      assert.ok(await page.isHidden('#email'))
      assert.equal(await page.innerText('#for-user'), `for ${email}`)
      assert.equal(await page.getAttribute('#new-password', 'minlength'), '8')
      await page.click('#cancel')
      await page.click('#log-out')
      await says(page, 'You are logged out.')
      assert.deepEqual(await fields(), ['username', 'current-password'])
    }),
  )

  test(
    'shows how many characters are missing, and an error until it is corrected',
    visit(async ({ page, newUser, logIn, calls, look }) => {
      await logIn(await newUser())
      await openChange(page)
      const hint = () => page.innerText('#new-password-hint')
      assert.match(await hint(), /^At least 8 characters\./)
      for (const [typed, expected] of [
        ['🔑🔑🔑', '5 more characters'],
        ['seven77', '1 more character'],
        ['eight888', 'Long enough'],
      ] as const) {
        await page.fill('#new-password', typed)
        assert.equal(await hint(), expected)
      }
      await page.fill('#password', PASSWORD)
      await save(page, 'short')
      const error = 'Choose a password with at least 8 characters.'
      assert.equal(await page.innerText('#new-password-error'), error)
      assert.equal(await page.innerText('#status'), error)
      assert.equal(await page.getAttribute('#new-password', 'aria-invalid'), 'true')
      assert.equal(await focused(page), 'new-password')
      await look('new-password-short')
      await page.fill('#new-password', NEW_PASSWORD)
      assert.equal(await page.innerText('#new-password-error'), '')
      assert.equal(countOf(calls(), 'POST /password'), 0)
    }),
  )

  test(
    'shows why the service refuses a new password, in the language of the page',
    visit(
      async ({ page, newUser, logIn, look }) => {
        await logIn(await newUser())
        await page.getByRole('link', { name: 'Passwort ändern' }).click()
        await page.fill('#password', PASSWORD)
        for (const [reason, sentence] of [
          ['too_short', /mindestens 8 Zeichen/],
          ['too_long', /zu lang/],
          ['too_common', /verwenden viele/],
          ['personal', /ähnelt zu sehr/],
          ['unchanged', /haben Sie schon/],
        ] as const) {
          const error = { code: 'VALIDATION_ERROR', fields: ['newPassword'], reason }
          const refusal = { status: 400, json: { error } }
          await page.route(`**${CHANGE}`, route => route.fulfill(refusal), { times: 1 })
          await save(page)
          await page.locator('#new-password-error').filter({ hasText: sentence }).waitFor()
          assert.equal(await page.getAttribute('#new-password', 'aria-invalid'), 'true')
          assert.equal(await page.getAttribute('#password', 'aria-invalid'), 'false')
          assert.equal(await focused(page), 'new-password')
          if (reason === 'personal') await look('new-password-refused')
          await page.press('#new-password', '!')
          assert.equal(await page.innerText('#new-password-error'), '')
        }
        await save(page)
        await says(page, 'Ihr Passwort ist geändert. Alle anderen Geräte wurden abgemeldet.')
      },
      { expected: [400], context: { locale: 'de-DE' } },
    ),
  )

  test(
    'says that the current password is wrong, and takes the right one',
    visit(async ({ page, newUser, logIn, look }) => {
      await logIn(await newUser())
      await openChange(page)
      await page.fill('#password', 'not the password')
      await save(page)
      await says(page, 'Your current password is incorrect.')
      assert.equal(await focused(page), 'password')
      await look('current-password-wrong')
      await page.keyboard.type(PASSWORD)
      await page.keyboard.press('Enter')
      await says(page, CHANGED)
    }),
  )

  test(
    'is sent once after repeated clicks, shows that it is under way, and ignores Back meanwhile',
    visit(async ({ page, newUser, logIn, calls }) => {
      await logIn(await newUser())
      await openChange(page)
      const held = Promise.withResolvers<void>()
      await page.route(`**${CHANGE}`, async route => {
        await held.promise
        await route.continue()
      })
      await page.fill('#password', PASSWORD)
      await page.fill('#new-password', NEW_PASSWORD)
      await page.evaluate(`for (let i = 0; i < 3; i++) document.getElementById('log-in').click()`)
      const button = page.getByRole('button', { name: 'Saving password…' })
      assert.equal(await button.getAttribute('aria-busy'), 'true')
      await page.click('#cancel')
      await page.goBack()
      assert.ok(await button.isVisible())
      held.resolve()
      await says(page, CHANGED)
      await sessionsOf(page).waitFor()
      assert.equal(countOf(calls(), 'POST /password'), 1)
    }),
  )

  test(
    'opens and closes by the history, and stays after a reload and in another language',
    visit(async ({ page, newUser, logIn }) => {
      await logIn(await newUser())
      await openChange(page)
      await page.goBack()
      await sessionsOf(page).waitFor()
      await page.goForward()
      await page.getByRole('heading', { name: 'Change password' }).waitFor()
      await page.reload()
      await page.getByRole('heading', { name: 'Change password' }).waitFor()
      assert.ok(await page.isHidden('#email'))
      await page.click('text=Deutsch')
      await page.getByRole('heading', { name: 'Passwort ändern' }).waitFor()
      assert.equal(await focused(page), 'password')
      await page.click('#cancel')
      await sessionsOf(page).waitFor()
      assert.equal(new URL(page.url()).hash, '')
    }),
  )

  test(
    'works beside another window, which goes on with the new session',
    visit(async ({ page, newTab, newUser, logIn }) => {
      const email = await newUser()
      await logIn(email)
      const tab = await newTab()
      await sessionsOf(tab).waitFor()
      await openChange(page)
      await page.fill('#password', PASSWORD)
      // The other window logs out while the form is filled in here.
      await tab.click('#log-out')
      await says(tab, 'You are logged out.')
      await save(page)
      await says(page, CHANGED)
      await sessionsOf(tab).waitFor()
      assert.equal(await tab.innerText('#user-email'), email)
      await tab.click('#log-out')
      await says(page, 'You are logged out.')
    }),
  )

  test(
    'waits after too many attempts, also over a reload',
    visit(
      async ({ page, newUser, logIn }) => {
        await logIn(await newUser())
        await openChange(page)
        await page.route(
          `**${CHANGE}`,
          route => route.fulfill({ status: 429, headers: { 'Retry-After': '700' }, json: {} }),
          { times: 1 },
        )
        await page.fill('#password', PASSWORD)
        await save(page)
        await says(page, /^Too many attempts/)
        await page.getByText(/Wait 11:/).waitFor()
        await page.reload()
        await page.getByText(/Wait 11:/).waitFor()
        await page.getByRole('heading', { name: 'Change password' }).waitFor()
        await page.click('#cancel')
        await sessionsOf(page).waitFor()
        assert.equal(await page.innerText('#notice'), '')
      },
      { expected: [429] },
    ),
  )

  test(
    'is offered at the well-known address, without a session',
    visit(
      async ({ page, service, newUser, fill, look }) => {
        const email = await newUser()
        await page.getByRole('heading', { name: 'Change password' }).waitFor()
        assert.equal(await focused(page), 'email')
        await look('change-password-email')
        await fill(email, 'not the password')
        await save(page)
        await says(page, 'Incorrect email or password.')
        await fill(email)
        await save(page)
        await says(page, CHANGED)
        await sessionsOf(page).waitFor()
        await page.goto(service.url + WELL_KNOWN)
        await page.locator('#password:focus').waitFor()
        assert.equal(await page.innerText('#for-user'), `for ${email}`)
        assert.ok(await page.isHidden('#email'))
      },
      { path: WELL_KNOWN },
    ),
  )

  test(
    'leads to the login when it is cancelled without a session',
    visit(
      async ({ page, newUser, logIn }) => {
        await page.getByRole('heading', { name: 'Change password' }).waitFor()
        await page.click('#cancel')
        await page.getByRole('heading', { name: 'Log in' }).waitFor()
        await logIn(await newUser())
        assert.ok(await page.isVisible('#account'))
      },
      { path: WELL_KNOWN },
    ),
  )
})

describe('a change of the password whose answer is lost', () => {
  const visit = openVisits()

  test(
    'logs in with the new password if it was made',
    visit(
      async ({ page, newUser, logIn }) => {
        await logIn(await newUser())
        await openChange(page)
        await loseAnswer(page, CHANGE)
        await page.fill('#password', PASSWORD)
        await save(page)
        await says(page, CHANGED)
        // The session of the lost answer is there too, until it expires.
        await sessionsOf(page).nth(1).waitFor()
      },
      { expected: [LOST] },
    ),
  )

  const failProxy = (page: Page, path: string) =>
    page.route(`**${path}`, route => route.fulfill({ status: 502 }), { times: 1 })
  for (const [name, lose] of [
    ['the network', loseRequest],
    ['a proxy', failProxy],
  ] as const) {
    test(
      `says that nothing was changed if ${name} failed before that, and can be repeated`,
      visit(
        async ({ page, newUser, logIn }) => {
          await logIn(await newUser())
          await openChange(page)
          await lose(page, CHANGE)
          await page.fill('#password', PASSWORD)
          await save(page)
          await says(page, /your password was not changed\. Try again\./)
          await page.click('#log-in')
          await says(page, CHANGED)
        },
        { expected: [LOST, 502] },
      ),
    )
  }

  for (const [name, second] of [
    ['the same', NEW_PASSWORD],
    ['another', OTHER_PASSWORD],
  ] as const) {
    test(
      `says that it does not know yet if the login is lost too, and finds it out with ${name} new password`,
      visit(
        async ({ page, service, newUser, logIn, look }) => {
          const email = await newUser()
          await logIn(email)
          await openChange(page)
          await loseAnswer(page, CHANGE)
          await loseRequest(page, LOGIN)
          await page.fill('#password', PASSWORD)
          await save(page)
          await says(page, /We cannot tell yet whether your password was changed/)
          await look('change-unclear')
          await save(page, second)
          await says(page, CHANGED)
          assert.equal((await service.login(email, second)).status, 200)
        },
        { expected: [LOST] },
      ),
    )
  }

  test(
    'forgets it when the change is cancelled',
    visit(
      async ({ page, newUser, logIn, calls }) => {
        await logIn(await newUser())
        await openChange(page)
        await loseRequest(page, CHANGE)
        await loseRequest(page, LOGIN)
        await page.fill('#password', 'not the password')
        await save(page)
        await says(page, /We cannot tell yet/)
        await page.click('#cancel')
        await sessionsOf(page).waitFor()
        await openChange(page)
        await page.fill('#password', 'not the password')
        await save(page)
        await says(page, 'Your current password is incorrect.')
        assert.equal(countOf(calls(), 'POST /login'), 2)
      },
      { expected: [LOST] },
    ),
  )
})
