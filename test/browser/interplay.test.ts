// Late answers, repeated clicks, another account in another tab, and changed clocks.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { PASSWORD } from '../service.ts'
import { MINUTE_MS } from '../session-client.ts'
import {
  assertKept,
  focused,
  logInOn,
  openVisits,
  says,
  sessionsOf,
  withoutChannel,
  withoutCookies,
} from './browser.ts'

/** Delays requests to one path until they are released. */
async function hold(page: Page, path: string) {
  const { promise, resolve: release } = Promise.withResolvers<void>()
  await page.route(`**/api/v1/auth${path}`, async route => {
    await promise
    await route.continue()
  })
  return {
    async release() {
      const answered = page.waitForResponse(`**/api/v1/auth${path}`)
      release()
      await (await answered).finished()
      await page.unroute(`**/api/v1/auth${path}`)
    },
  }
}

describe('the page in unusual conditions', () => {
  const visit = openVisits()

  test(
    'works in a browser with an invalid language tag',
    visit(
      async ({ newUser, logIn, page }) => {
        await logIn(await newUser())
        assert.match(await page.innerText('#sessions'), /logged in just now/)
      },
      {
        prepare: page =>
          page.addInitScript(
            `Object.defineProperty(navigator, 'languages', { get: () => ['en-US@posix'] })`,
          ),
      },
    ),
  )

  test(
    'ends one session after repeated clicks on its button',
    visit(async ({ page, service, newUser, logIn, calls }) => {
      const email = await newUser()
      for (let i = 0; i < 4; i++) await service.login(email, PASSWORD)
      await logIn(email)
      const box = await page.locator('#sessions li:nth-child(2) button').boundingBox()
      assert.ok(box)
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
      await page.mouse.click(x, y)
      await page.locator('#sessions li:nth-child(5)').waitFor({ state: 'detached' })
      await page.mouse.click(x, y, { clickCount: 2 })
      await page.reload()
      await sessionsOf(page).first().waitFor()
      assert.equal(await sessionsOf(page).count(), 4)
      assert.equal(calls().filter(call => call.startsWith('DELETE')).length, 1)
    }),
  )

  test(
    'keeps the form and its input when a live session is found after typing',
    visit(async ({ page, newUser, logIn, fill }) => {
      await logIn(await newUser())
      const session = await hold(page, '/session')
      await page.reload()
      await fill('other@example.com')
      await page.press('#password', 'Shift')
      await session.release()
      await assertKept(page, 'other@example.com')
      assert.equal(await focused(page), 'password')
      assert.ok(await page.isHidden('#account'))
    }),
  )

  test(
    'shows the account when a live session is found late and nothing was typed',
    visit(async ({ page, newUser, logIn }) => {
      await logIn(await newUser())
      const session = await hold(page, '/session')
      await page.reload()
      await page.locator('#email:focus').waitFor()
      await session.release()
      await sessionsOf(page).waitFor()
    }),
  )

  test(
    'stays logged out when the answer to an earlier request arrives',
    visit(async ({ page, newUser, logIn }) => {
      await logIn(await newUser())
      const sessions = await hold(page, '/sessions')
      await page.reload()
      await page.click('#log-out')
      await says(page, 'You are logged out.')
      await page.fill('#password', 'half a passw')
      await sessions.release()
      await says(page, 'You are logged out.')
      assert.equal(await focused(page), 'password')
      assert.equal(await page.inputValue('#password'), 'half a passw')
    }),
  )

  test(
    'continues to renew after a renewal has found another account',
    visit(
      async ({ page, newTab, newUser, logIn, service, calls }) => {
        const [kate, other] = [await newUser(), await newUser('Somebody Else')]
        await logIn(kate)
        const tab = await newTab()
        await tab.click('#log-out')
        await logInOn(tab, other)
        await tab.close()
        const renewals = () => calls().filter(call => call === 'POST /refresh').length
        service.advance(20 * MINUTE_MS)
        await page.clock.runFor(20 * MINUTE_MS)
        await says(page, /now logged in to another account/)
        const before = renewals()
        await page.click('h1:visible')
        service.advance(20 * MINUTE_MS)
        await page.clock.runFor(20 * MINUTE_MS)
        assert.equal(renewals(), before + 1)
      },
      {
        expected: [403],
        async prepare(page) {
          await page.clock.install()
          await withoutChannel(page)
        },
      },
    ),
  )

  test(
    'shows what is wrong when the browser keeps no cookie',
    visit(
      async ({ page, newUser, fill }) => {
        await fill(await newUser())
        await page.click('#log-in')
        await says(page, /this browser did not store the cookie/)
        assert.ok(await page.isVisible('#form'))
      },
      { prepare: withoutCookies },
    ),
  )

  test(
    'does not wait longer when the clock is set back',
    visit(
      async ({ page, fill }) => {
        const refused = { status: 429, headers: { 'Retry-After': '2' }, json: {} }
        await page.route('**/api/v1/auth/login', route => route.fulfill(refused))
        await fill('kate@example.com')
        await page.click('#log-in')
        await page.getByText(/Wait 0:0/).waitFor()
        await page.evaluate(`{ const now = Date.now; Date.now = () => now() - 3_600_000 }`)
        await says(page, 'You can try again now.')
        assert.equal(await focused(page), 'password')
      },
      { expected: [429] },
    ),
  )
})
