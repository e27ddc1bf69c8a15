// The account view: sessions, renewal, and changes made in other tabs.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { PASSWORD } from '../service.ts'
import { MINUTE_MS } from '../session-client.ts'
import {
  focused,
  logInOn,
  openVisits,
  overflowOf,
  says,
  sessionsOf,
  withoutChannel,
} from './browser.ts'

const PHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1'

const countOf = (calls: string[], call: string) => calls.filter(made => made === call).length

/** What the browser does when a tab becomes visible again. */
const lookAgain = (page: Page) =>
  page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)

describe('the account in a browser', () => {
  const visit = openVisits()

  test(
    'shows the user and all sessions, the newest first',
    visit(async ({ page, service, newUser, logIn, look }) => {
      const email = await newUser()
      const body = { email, password: PASSWORD }
      await service.call({ body, headers: { 'User-Agent': PHONE } })
      await service.call({ body, headers: { 'User-Agent': 'curl/8.14.1' } })
      await logIn(email)
      assert.equal(await page.innerText('h1:visible'), 'Kate')
      assert.equal(await page.innerText('#user-email'), email)
      assert.equal(await page.innerText('#role'), 'user')
      assert.equal(await page.innerText('#initials'), 'K')
      assert.equal(await page.title(), 'Logged in · Login Service')
      assert.equal(await focused(page), 'name')
      const [own, ...others] = await sessionsOf(page).allInnerTexts()
      assert.match(
        String(own),
        /^Chrome on Linux\sThis device\s+127\.0\.0\.1 · logged in just now$/,
      )
      assert.deepEqual(
        others.map(text => text.split('\n')[0]),
        ['curl', 'Safari on iPhone'],
      )
      const icons = await page
        .locator('#sessions use')
        .evaluateAll(uses => uses.map(use => use.getAttribute('href')))
      assert.deepEqual(icons, ['#computer', '#program', '#phone'])
      await look('account')
    }),
  )

  test(
    'tells sessions apart that look alike, by exact times',
    visit(async ({ page, service, newUser, logIn, look }) => {
      const email = await newUser()
      for (let i = 0; i < 2; i++) {
        await service.login(email, PASSWORD)
        service.advance(7_000)
      }
      await logIn(email)
      const [, one, other] = await sessionsOf(page).allInnerTexts()
      assert.match(`${one}`, /127\.0\.0\.1 · logged in \d+ \w+ \d{4}, \d\d:\d\d:\d\d$/m)
      assert.notEqual(one, other)
      const time = page.locator('#sessions li:first-child time')
      assert.equal(await time.innerText(), 'just now')
      assert.match(`${await time.getAttribute('title')}`, /^\d+ \w+ \d{4}, \d\d:\d\d:\d\d$/)
      assert.ok(Date.parse(`${await time.getAttribute('datetime')}`) > 0)
      await page.getByText('You are logged in. You can close this window.').waitFor()
      await look('alike')
    }),
  )

  test(
    'keeps a name in another direction beside its initials',
    visit(async ({ page, newUser, logIn, picture }) => {
      await logIn(await newUser('كاتي محمود'))
      const distance = await page.evaluate<number>(`(() => {
        const range = document.createRange()
        range.selectNodeContents(document.getElementById('name'))
        return range.getBoundingClientRect().left - initials.getBoundingClientRect().right
      })()`)
      assert.ok(distance > 0 && distance < 20, String(distance))
      await picture('right-to-left')
    }),
  )

  test(
    'tells when and from where the last login was, and how many attempts failed since',
    visit(async ({ page, service, newUser, logIn, look }) => {
      const email = await newUser()
      await logIn(email)
      assert.ok(await page.isHidden('#last-login'))
      await page.click('#log-out')
      await says(page, 'You are logged out.')
      await logIn(email)
      const last = /^Last login: (\d+ \w+ \d{4}, )?\d\d:\d\d · Chrome on Linux · 127\.0\.0\.1$/
      assert.match(await page.innerText('#last-login'), last)
      await page.click('#log-out')
      await says(page, 'You are logged out.')
      for (let i = 0; i < 3; i++) await service.login(email, 'not the password')
      await logIn(email)
      const warning = page.locator('#failures', {
        hasText: /^3 attempts to log in to your account have failed since your last login\./,
      })
      await warning.waitFor()
      await look('failures')
      await page.reload()
      await warning.waitFor()
    }),
  )

  test(
    'shows that a logout is under way',
    visit(async ({ page, newUser, logIn, calls }) => {
      await logIn(await newUser())
      const { promise, resolve: answer } = Promise.withResolvers<void>()
      await page.route('**/logout', async route => {
        await promise
        await route.continue()
      })
      await page.click('#log-out')
      await page.locator('#log-out[aria-busy=true] .spinner').waitFor()
      await page.evaluate(`document.getElementById('log-out').click()`)
      answer()
      await says(page, 'You are logged out.')
      assert.equal(countOf(calls(), 'POST /logout'), 1)
    }),
  )

  test(
    'keeps no token and no password in the page, its address, its storage or readable cookies',
    visit(async ({ page, context, newUser, logIn }) => {
      await logIn(await newUser())
      const found = await page.evaluate<string>(`JSON.stringify([
          location.href, document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage },
          document.cookie, history.state, [...document.querySelectorAll('input')].map(it => it.value)])`)
      assert.doesNotMatch(found, /eyJ|csrf/i)
      assert.ok(!found.includes(PASSWORD))
      for (const { value } of await context.cookies()) assert.ok(!found.includes(value))
    }),
  )

  test(
    'ends one session, then all others, and keeps its own',
    visit(async ({ page, service, newUser, logIn, calls }) => {
      const email = await newUser()
      for (let i = 0; i < 3; i++) await service.login(email, PASSWORD)
      await logIn(email)
      assert.equal(await sessionsOf(page).count(), 4)
      await page
        .getByRole('button', { name: /^Log out: Unknown device/ })
        .first()
        .click()
      await page.locator('#sessions li:nth-child(4)').waitFor({ state: 'detached' })
      assert.equal(await sessionsOf(page).count(), 3)
      assert.equal(await page.innerText('#status'), 'That device is logged out.')
      await page.locator('#sessions-title:focus').waitFor()
      await page.getByRole('button', { name: 'Log out all other devices' }).click()
      await page.locator('#sessions li:nth-child(2)').waitFor({ state: 'detached' })
      assert.ok(await page.isHidden('#end-others'))
      assert.ok(calls().includes('DELETE /sessions'))
      await page.reload()
      await sessionsOf(page).waitFor()
      assert.equal(await sessionsOf(page).count(), 1)
    }),
  )

  test(
    'removes a session from the list that has already ended elsewhere',
    visit(
      async ({ page, service, newUser, logIn }) => {
        const email = await newUser()
        const { json } = await service.login(email, PASSWORD)
        await logIn(email)
        const { refreshToken } = json.data
        await service.call({ path: '/api/v1/auth/logout', body: { refreshToken } })
        await page.getByRole('button', { name: /^Log out:/ }).click()
        await page.locator('#sessions li:nth-child(2)').waitFor({ state: 'detached' })
        assert.equal(await page.innerText('#notice'), '')
      },
      { expected: [404] },
    ),
  )

  test(
    'is shown after a reload and in a new tab, and no longer after a logout, even by going back',
    visit(async ({ page, newTab, newUser, logIn, service }) => {
      await logIn(await newUser())
      await page.reload()
      await sessionsOf(page).waitFor()
      await page.goto(`${service.url}/`)
      await sessionsOf(page).waitFor()
      const tab = await newTab()
      await sessionsOf(tab).waitFor()
      await page.click('#log-out')
      await says(page, 'You are logged out.')
      await page.goBack()
      await page.locator('#email').waitFor()
      assert.ok(!(await page.content()).includes('Kate'))
      await says(tab, 'You are logged out.')
      assert.equal(await sessionsOf(tab).count(), 0)
    }),
  )

  test(
    'ignores answers that are outdated when they arrive',
    visit(async ({ page, newTab, newUser, logIn, service }) => {
      const [kate, other] = [await newUser(), await newUser('Somebody Else')]
      for (let i = 0; i < 2; i++) await service.login(kate, PASSWORD)
      await logIn(kate)
      const tab = await newTab()
      await sessionsOf(tab).first().waitFor()
      // The first answer after the logout is held until another user has logged in.
      const { promise, resolve: release } = Promise.withResolvers<void>()
      await page.route(
        '**/session',
        async route => {
          const response = await route.fetch()
          await promise
          await route.fulfill({ response })
        },
        { times: 1 },
      )
      await tab.click('#log-out')
      await says(tab, 'You are logged out.')
      await logInOn(tab, other)
      await page.locator('#user-email').filter({ hasText: other }).waitFor()
      const late = page.waitForResponse('**/session')
      release()
      await (await late).finished()
      assert.equal(await page.innerText('#user-email'), other)
      assert.ok(await page.isVisible('#account'))
      await says(page, /now logged in to another account/)
    }),
  )

  test(
    'keeps the focus and the rows when the list is asked for again',
    visit(async ({ page, service, newUser, logIn }) => {
      const email = await newUser()
      for (let i = 0; i < 2; i++) await service.login(email, PASSWORD)
      await logIn(email)
      const row = page.locator('#sessions li:nth-child(3)')
      const id = String(await row.getAttribute('id'))
      await row.locator('button').focus()
      await service.login(email, PASSWORD)
      await lookAgain(page)
      await page.locator('#sessions li:nth-child(4)').waitFor()
      assert.equal(await page.evaluate(`document.activeElement.closest('li').id`), id)
      await page.evaluate(`window.row = document.getElementById('${id}')`)
      const answered = page.waitForResponse('**/sessions')
      await lookAgain(page)
      await (await answered).finished()
      assert.ok(await page.evaluate('row.isConnected'))
    }),
  )

  test(
    'says that it is logged out only if the service does',
    visit(
      async ({ page, newUser, logIn }) => {
        await logIn(await newUser())
        await page.route('**/logout', route => route.fulfill({ status: 404, body: 'Not found' }))
        await page.click('#log-out')
        await says(page, /Something went wrong/)
        assert.ok(await page.isVisible('#account'))
        // An error goes once the service answers again.
        await lookAgain(page)
        await page.locator('#notice:empty').waitFor({ state: 'attached' })
      },
      { expected: [404] },
    ),
  )

  test(
    'notices a logout in another window when it becomes visible, if it was not told',
    visit(
      async ({ page, newTab, newUser, logIn }) => {
        await logIn(await newUser())
        const tab = await newTab()
        await sessionsOf(tab).waitFor()
        await page.click('#log-out')
        await says(page, 'You are logged out.')
        await lookAgain(tab)
        await says(tab, 'Your session has ended. Please log in again.')
      },
      { prepare: withoutChannel },
    ),
  )

  test(
    'follows a login and a logout in another window at once',
    visit(async ({ page, newTab, newUser, logIn }) => {
      const [kate, other] = [await newUser(), await newUser('Somebody Else')]
      const tab = await newTab()
      await tab.locator('#email:focus').waitFor()
      await logIn(kate)
      await sessionsOf(tab).waitFor()
      await tab.click('#log-out')
      await says(page, 'You are logged out.')
      await logInOn(tab, other)
      await sessionsOf(page).waitFor()
      assert.equal(await page.innerText('#user-email'), other)
    }),
  )

  test(
    'returns to the form when the session has ended',
    visit(async ({ page, service, newUser, logIn, look }) => {
      const email = await newUser()
      await service.login(email, PASSWORD)
      await logIn(email)
      await service.database.rows('delete from sessions')
      await page.getByRole('button', { name: /^Log out:/ }).click()
      await says(page, 'Your session has ended. Please log in again.')
      assert.ok(await page.isVisible('#form'))
      await look('session-ended')
      await logIn(email)
    }),
  )

  test(
    'gets a new CSRF token after a 403, and repeats the request once',
    visit(
      async ({ page, newTab, newUser, logIn, calls }) => {
        const email = await newUser()
        await logIn(email)
        const tab = await newTab()
        await tab.click('#log-out')
        await logInOn(tab, email)
        await page.click('#log-out')
        await says(page, 'You are logged out.')
        assert.equal(countOf(calls(), 'POST /logout'), 3)
      },
      { expected: [403], prepare: withoutChannel },
    ),
  )

  test(
    'does not end sessions of another user that has logged in in another tab',
    visit(
      async ({ page, newTab, newUser, logIn, service }) => {
        const [kate, other] = [await newUser(), await newUser('Somebody Else')]
        await service.login(kate, PASSWORD)
        await service.login(other, PASSWORD)
        await logIn(kate)
        const tab = await newTab()
        await tab.click('#log-out')
        await logInOn(tab, other)
        await page.click('#end-others')
        await says(page, /now logged in to another account/)
        assert.equal(await page.innerText('#user-email'), other)
        await sessionsOf(page).nth(1).waitFor()
        assert.equal(await sessionsOf(page).count(), 2)
      },
      { expected: [403], prepare: withoutChannel },
    ),
  )

  test(
    'renews the session while the page is in use, and lets the session end when it is not',
    visit(
      async ({ page, service, newUser, logIn, calls }) => {
        await logIn(await newUser())
        assert.equal(countOf(calls(), 'POST /refresh'), 0)
        // A failed renewal is repeated a minute later, without a notice.
        await page.route('**/refresh', route => route.fulfill({ status: 503, body: '' }), {
          times: 1,
        })
        const failed = page.waitForResponse('**/refresh')
        service.advance(20 * MINUTE_MS)
        await page.clock.runFor(20 * MINUTE_MS)
        assert.equal((await failed).status(), 503)
        assert.equal(await page.innerText('#notice'), '')
        const renewed = page.waitForResponse('**/refresh')
        while (countOf(calls(), 'POST /refresh') < 2) await page.clock.runFor(MINUTE_MS / 2)
        assert.equal((await renewed).status(), 200)

        // The page is not in use any more: no renewal at 40 minutes, and at 80 the session has ended.
        service.advance(20 * MINUTE_MS)
        await page.clock.runFor(20 * MINUTE_MS)
        assert.equal(countOf(calls(), 'POST /refresh'), 2)
        service.advance(40 * MINUTE_MS)
        await page.clock.runFor(40 * MINUTE_MS)
        await says(page, 'Your session has ended. Please log in again.')
      },
      { expected: [503], prepare: page => page.clock.install() },
    ),
  )

  test(
    'stays when the service fails or cannot be reached, and shows what is wrong',
    visit(
      async ({ page, context, newUser, logIn, service }) => {
        const email = await newUser()
        await service.login(email, PASSWORD)
        await logIn(email)
        await context.setOffline(true)
        await page.click('#log-out')
        await says(page, /cannot be reached/)
        await context.setOffline(false)
        await page.route('**/sessions', route => route.fulfill({ status: 500, body: 'no' }))
        await page.click('#end-others')
        await says(page, /Something went wrong on our side/)
        assert.equal(await sessionsOf(page).count(), 2)
        await page.unroute('**/sessions')
        await page.click('#end-others')
        await page.locator('#sessions li:nth-child(2)').waitFor({ state: 'detached' })
        assert.equal(await page.innerText('#notice'), '')
      },
      { expected: [500, 'net::ERR_INTERNET_DISCONNECTED'] },
    ),
  )

  test(
    'shows long names and devices as text, not as markup, and 30 sessions',
    visit(async ({ page, service, newUser, logIn, look }) => {
      const name = `<img src=x onerror=alert(1)>${'W'.repeat(72)}`
      const email = await newUser(name)
      const body = { email, password: PASSWORD }
      for (let i = 0; i < 29; i++) {
        const agent = `<b onclick=alert(${i})>${'M'.repeat(300)}`
        await service.call({ body, headers: { 'User-Agent': agent } })
      }
      await logIn(email)
      assert.equal(await page.innerText('#name'), name)
      await look('many-sessions')
      assert.equal(await page.locator('#sessions li:visible').count(), 5)
      await page.getByRole('button', { name: 'Show all 30' }).click()
      assert.equal(await page.locator('#sessions li:visible').count(), 30)
      assert.ok(await page.isHidden('#show-all'))
      const row = `[...document.querySelectorAll('#sessions li')].indexOf(document.activeElement.closest('li'))`
      assert.equal(await page.evaluate(row), 5)
      assert.match(await page.innerText('#sessions'), /<b onclick=alert\(7\)>M+\n/)
      assert.equal(await page.locator('#account img, #sessions b').count(), 0)
      assert.equal(await overflowOf(page), 0)
    }),
  )
})
