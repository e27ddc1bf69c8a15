// Logins in a browser, answered by the service itself.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { LOGIN, PASSWORD } from '../service.ts'
import { assertKept, focused, openVisits, says } from './browser.ts'

/** Seconds on the countdown. */
async function secondsLeft(page: Page): Promise<number> {
  const [, minutes, seconds] = /(\d+):(\d\d)/.exec(await page.innerText('#log-in-text')) ?? []
  return Number(minutes) * 60 + Number(seconds)
}

describe('logins in a browser', () => {
  const visit = openVisits()

  test(
    'shows the same sentence for a wrong password and an unknown email, and focuses the password',
    visit(async ({ page, newUser, fill, look }) => {
      for (const email of [await newUser(), 'absent@example.com']) {
        await fill(email, 'not the password')
        await page.click('#log-in')
        await page.locator('#log-in[aria-busy=false]').waitFor()
        await says(page, 'Incorrect email or password.')
        await assertKept(page, email, 'not the password')
        assert.equal(await focused(page), 'password')
      }
      await look('wrong-password')
    }),
  )

  test(
    'counts down a block, announces only its end, and logs in after it',
    visit(
      async ({ page, service, newUser, fill, look }) => {
        const email = await newUser()
        for (let i = 0; i < 5; i++) await service.login(email, 'wrong')
        await fill(email)
        await page.click('#log-in')
        await says(page, /^Too many attempts. You can try again at (\d+ \w+ \d{4}, )?\d\d:\d\d\.$/)
        assert.ok(await page.isDisabled('#log-in'))
        assert.ok(await page.isEnabled('#email'))
        await assertKept(page, email, '')
        assert.equal(await focused(page), 'notice')
        await page.evaluate(`window.readOut = []; new MutationObserver(() =>
            readOut.push(notice.textContent)).observe(notice, { childList: true })`)
        await look('wait')

        const before = await secondsLeft(page)
        assert.ok(before > 800 && before <= 900)
        await page.clock.runFor(100_000)
        const after = await secondsLeft(page)
        assert.ok(after <= before - 100 && after > 600)
        assert.deepEqual(await page.evaluate('readOut'), [])

        service.advance(900_000)
        await page.clock.runFor(900_000)
        await says(page, 'You can try again now.')
        assert.deepEqual(await page.evaluate('readOut'), ['You can try again now.'])
        assert.equal(await page.innerText('#log-in-text'), 'Log in')
        assert.equal(await focused(page), 'password')
        await page.keyboard.type(PASSWORD)
        await page.keyboard.press('Enter')
        await page.locator('#account').waitFor()
      },
      { expected: [429], prepare: page => page.clock.install() },
    ),
  )

  test(
    'lifts a block when the email changes, keeps it over a reload, and leaves the rest of the form usable',
    visit(
      async ({ page, service, newUser, fill, logIn }) => {
        const [blocked, other] = [await newUser(), await newUser()]
        for (let i = 0; i < 5; i++) await service.login(blocked, 'wrong')
        await fill(blocked)
        await page.click('#log-in')
        await says(page, /^Too many attempts/)
        await page.reload()
        await says(page, /^Too many attempts/)
        await assertKept(page, blocked, '')
        assert.ok((await secondsLeft(page)) > 800)
        // Enter must not send what the button would not.
        await page.fill('#password', PASSWORD)
        await page.press('#password', 'Enter')
        assert.ok(await page.isDisabled('#log-in'))
        await page.fill('#email', other)
        assert.equal(await page.innerText('#notice'), '')
        assert.equal(await page.innerText('#log-in-text'), 'Log in')
        await page.fill('#email', blocked)
        await page.click('#log-in')
        await says(page, /^Too many attempts/)
        await logIn(other)
        await page.reload()
        assert.equal(await page.inputValue('#email'), '')
      },
      { expected: [429] },
    ),
  )

  test(
    'sends one request after repeated clicks, and shows that it is waiting',
    visit(async ({ page, newUser, fill, calls, look }) => {
      const held = Promise.withResolvers<void>()
      await page.route(`**${LOGIN}`, async route => {
        await held.promise
        await route.continue()
      })
      await fill(await newUser())
      await page.evaluate(`for (let i = 0; i < 3; i++) document.getElementById('log-in').click()`)
      await page.locator('#password').press('Enter')
      const submit = page.getByRole('button', { name: 'Logging in…' })
      assert.equal(await submit.getAttribute('aria-disabled'), 'true')
      await look('waiting')
      held.resolve()
      await page.locator('#account').waitFor()
      assert.equal(calls().filter(call => call === 'POST /login').length, 1)
    }),
  )

  test(
    'can be used with the keyboard alone',
    visit(async ({ page, newUser }) => {
      const email = await newUser()
      await page.locator('#email:focus').waitFor()
      await page.keyboard.type(email)
      await page.keyboard.press('Tab')
      await page.keyboard.type(PASSWORD)
      await page.keyboard.press('Tab')
      assert.equal(await focused(page), 'reveal')
      await page.keyboard.press('Space')
      assert.equal(await page.getAttribute('#password', 'type'), 'text')
      await page.keyboard.press('Tab')
      assert.equal(await focused(page), 'log-in')
      await page.keyboard.press('Enter')
      await page.locator('#sessions li').waitFor()
      assert.equal(await focused(page), 'name')
      for (let i = 0; i < 2; i++) await page.keyboard.press('Tab')
      assert.equal(await focused(page), 'log-out')
      await page.keyboard.press('Enter')
      await says(page, 'You are logged out.')
      assert.equal(await focused(page), 'email')
    }),
  )
})
