// The address to which a login leads.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { PASSWORD } from '../service.ts'
import { openVisits, says, sessionsOf, withoutCookies } from './browser.ts'

const APP = 'https://app.example.com'
const TARGET = `${APP}/orders?page=2&q="x"#top`

describe('a login with an address to return to', () => {
  const visit = openVisits({ RETURN_TO_ORIGINS: APP })
  const asked = (address: string) => `/login?return_to=${encodeURIComponent(address)}`

  test(
    'goes there, and replaces the form in the history',
    visit(
      async ({ page, newUser, fill, look }) => {
        assert.equal(await page.innerText('#destination'), 'to continue to app.example.com')
        await look('return-to')
        await fill(await newUser())
        await page.click('#log-in')
        await page.waitForURL(`${APP}/**`)
        assert.equal(page.url(), new URL(TARGET).href)
        assert.equal(await page.evaluate('document.referrer'), '')
        assert.equal(await page.evaluate('history.length'), 2)
      },
      { path: asked(TARGET), elsewhere: [APP] },
    ),
  )

  test(
    'goes there at once if the user is already logged in, and keeps the address in another language',
    visit(
      async ({ page, newUser, fill, calls, service }) => {
        await page.click('text=Deutsch')
        await page.getByText('und weiter zu app.example.com').waitFor()
        await fill(await newUser())
        await page.click('#log-in')
        await page.waitForURL(`${APP}/**`)
        // Later than the application would send the user back by itself.
        await page.clock.install({ time: Date.now() + 60_000 })
        await page.goto(service.url + asked(TARGET))
        await page.waitForURL(`${APP}/**`)
        assert.equal(calls().filter(call => call === 'POST /login').length, 1)
      },
      { path: asked(TARGET), elsewhere: [APP] },
    ),
  )

  test(
    'shows a link instead when the application sends the user back at once',
    visit(
      async ({ page, newUser, fill, service, look }) => {
        await fill(await newUser())
        await page.click('#log-in')
        await page.waitForURL(`${APP}/**`)
        await page.goto(service.url + asked(TARGET))
        await says(page, /You are logged in, but app\.example\.com sent you back here/)
        await sessionsOf(page).waitFor()
        await look('sent-back')
        await page.getByRole('link', { name: 'Continue to app.example.com' }).click()
        await page.waitForURL(`${APP}/**`)
      },
      {
        path: asked(TARGET),
        elsewhere: [APP],
        // "At once", however busy the machine is.
        prepare: page => page.clock.setFixedTime(Date.now()),
      },
    ),
  )

  test(
    'shows a link where the browser offers no storage, instead of going there again and again',
    visit(
      async ({ page, newUser, fill, service }) => {
        await fill(await newUser())
        await page.click('#log-in')
        await page.waitForURL(`${APP}/**`)
        await page.goto(service.url + asked(TARGET))
        await page.getByRole('link', { name: 'Continue to app.example.com' }).waitFor()
        // It may be the first visit.
        assert.equal(await page.innerText('#notice'), '')
      },
      {
        path: asked(TARGET),
        elsewhere: [APP],
        prepare: page =>
          page.addInitScript(`Object.defineProperty(window, 'sessionStorage', {
            get() { throw new DOMException('no storage', 'SecurityError') } })`),
      },
    ),
  )

  test(
    'says that the browser keeps no cookie, instead of going there',
    visit(
      async ({ page, newUser, fill }) => {
        await fill(await newUser())
        await page.click('#log-in')
        await says(page, /this browser did not store the cookie/)
        assert.ok(await page.isVisible('#form'))
      },
      { path: asked(TARGET), prepare: withoutCookies },
    ),
  )

  test(
    'shows where it goes while the application takes long, and the account if it does not come',
    visit(
      async ({ page, newUser, fill, look }) => {
        await page.route(`${APP}/**`, route => route.fulfill({ status: 204 }))
        await fill(await newUser())
        await page.click('#log-in')
        await page.getByText('Continuing to app.example.com…').first().waitFor()
        await look('leaving')
        await page.clock.runFor(10_000)
        await sessionsOf(page).waitFor()
      },
      { path: asked(TARGET), elsewhere: [APP], prepare: page => page.clock.install() },
    ),
  )

  test(
    'goes on although a password manager has filled in the form',
    visit(
      async ({ page, newUser, fill, service, context }) => {
        await fill(await newUser())
        await page.click('#log-in')
        await page.waitForURL(`${APP}/**`)
        const held = Promise.withResolvers<void>()
        await context.route('**/session', async route => {
          await held.promise
          await route.continue()
        })
        const [cookies] = [await context.cookies()]
        await context.clearCookies()
        const tab = await context.newPage()
        // Without the cookie, as after a link on another site: the form is visible.
        await tab.goto(service.url + asked(TARGET))
        await context.addCookies(cookies)
        await tab.locator('#log-in:enabled').waitFor()
        await tab.evaluate(`email.value = 'kate@example.com'; password.value = 'a password'`)
        held.resolve()
        await tab.waitForURL(`${APP}/**`)
      },
      { path: asked(TARGET), elsewhere: [APP] },
    ),
  )

  const HOSTILE = [
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    'javascript:alert(document.domain)',
    `${APP}@evil.example/`,
    `${APP}.evil.example/`,
    `${APP}\\@evil.example`,
    `\thttps://evil.example`,
    'data:text/html,<script>alert(1)</script>',
    `${APP}/"onmouseover="alert(1)\u0000`,
  ]
  test(
    'stays on the page for an address that is not listed, and says so',
    visit(
      async ({ page, newUser, logIn, service, look }) => {
        await says(page, /^We cannot send you back to evil\.example: it is not on our list/)
        assert.equal(await page.innerText('#destination'), '')
        await look('return-refused')
        await logIn(await newUser())
        assert.equal(new URL(page.url()).origin, service.url)
        for (const hostile of HOSTILE) {
          await page.goto(service.url + asked(hostile))
          await sessionsOf(page).waitFor()
          assert.ok(await page.isHidden('#continue'), hostile)
          await says(
            page,
            /^We cannot send you back to (app\.|where you came from|[^ ]*evil\.example:)/,
          )
        }
      },
      { path: asked('https://evil.example/') },
    ),
  )
})

describe('a login with a callback that gets a code', () => {
  const CALLBACK = `${APP}/in`
  const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
  const visit = openVisits({ CODE_CALLBACKS: CALLBACK, RETURN_TO_ORIGINS: APP })
  const asked = (address: string, challenge = CHALLENGE) =>
    `/login?return_to=${encodeURIComponent(address)}&challenge=${challenge}`
  const WITH_CODE = /^https:\/\/app\.example\.com\/in\?a=b&code=[\w-]{43}$/
  const OPTIONS = { path: asked(`${CALLBACK}?a=b`), elsewhere: [APP] }

  test(
    'goes there with a new code each time; the third time in a moment, the user must click',
    visit(
      async ({ page, newUser, fill, service }) => {
        await page.click('text=Deutsch')
        await page.getByText('und weiter zu app.example.com').waitFor()
        await fill(await newUser())
        await page.click('#log-in')
        await page.waitForURL(WITH_CODE)
        assert.equal(await page.evaluate('document.referrer'), '')
        const addresses = [page.url()]
        for (let i = 0; i < 2; i++) {
          await page.goto(service.url + OPTIONS.path)
          await page.waitForURL(WITH_CODE)
          addresses.push(page.url())
        }
        await page.goto(service.url + OPTIONS.path)
        await says(page, /You are logged in, but app\.example\.com sent you back here/)
        await page.getByRole('link', { name: 'Continue to app.example.com' }).click()
        await page.waitForURL(WITH_CODE)
        assert.equal(new Set([...addresses, page.url()]).size, 4)
      },
      {
        ...OPTIONS,
        // "In a moment", however busy the machine is.
        prepare: page => page.clock.setFixedTime(Date.now()),
      },
    ),
  )

  test(
    'asks for the password with prompt=login, also in another window that logs in',
    visit(async ({ page, newUser, logIn, newTab, service, context }) => {
      await page.goto(`${service.url}/login`)
      await logIn(await newUser())
      const tab = await context.newPage()
      await tab.goto(`${service.url}${OPTIONS.path}&prompt=login`)
      await tab.locator('#log-in:enabled').waitFor()
      await page.reload()
      await sessionsOf(page).waitFor()
      assert.ok(await tab.isVisible('#form'))
      await tab.fill('#email', await newUser())
      await tab.fill('#password', PASSWORD)
      await tab.click('#log-in')
      await tab.waitForURL(WITH_CODE)
      // Without it, the session counts.
      await (await newTab()).waitForURL(WITH_CODE)
    }, OPTIONS),
  )

  test(
    'shows the account and the reason if there is no code, and a link that tries again',
    visit(
      async ({ page, newUser, fill }) => {
        await page.route('**/code/issue', route => route.fulfill({ status: 503 }))
        await fill(await newUser())
        await page.click('#log-in')
        await says(page, /busy/)
        await sessionsOf(page).waitFor()
        await page.unroute('**/code/issue')
        await page.getByRole('link', { name: 'Continue to app.example.com' }).click()
        await page.waitForURL(WITH_CODE)
      },
      { ...OPTIONS, expected: [503] },
    ),
  )

  test(
    'stays on the page for a callback or challenge that is not accepted',
    visit(
      async ({ page, newUser, logIn, service, calls }) => {
        await logIn(await newUser())
        for (const path of [
          ...[asked(`${APP}/`), asked(`${CALLBACK}?code=x`), asked(CALLBACK, 'short')],
          ...[asked('https://evil.example/in'), `${asked(CALLBACK)}&challenge=x`],
        ]) {
          await page.goto(service.url + path)
          await sessionsOf(page).waitFor()
          await says(page, /^We cannot send you back to/)
          assert.ok(await page.isHidden('#continue'), path)
        }
        assert.ok(!calls().includes('POST /code/issue'))
        // And no code is added for the same address without a challenge.
        await page.goto(`${service.url}/login?return_to=${CALLBACK}`)
        await page.waitForURL(CALLBACK)
      },
      { elsewhere: [APP] },
    ),
  )
})
