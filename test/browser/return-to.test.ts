// The address to which a login leads.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openVisits } from './browser.ts'

const APP = 'https://app.example.com'
const TARGET = `${APP}/orders?page=2&q="x"#top`

describe('a login with an address to return to', () => {
  const visit = openVisits('sqlite', { RETURN_TO_ORIGINS: APP })
  const asked = (address: string) => `/login?return_to=${encodeURIComponent(address)}`

  test(
    'goes there, and replaces the form in the history',
    visit(
      async ({ page, newUser, fill }) => {
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
    'offers a link to a user that is already logged in',
    visit(
      async ({ page, newUser, logIn, look }) => {
        await page.goto(page.url().replace(/\?.*/, ''))
        await logIn(await newUser())
        await page.goto(page.url() + asked(TARGET).replace('/login', ''))
        const link = page.getByRole('link', { name: 'Continue to app.example.com' })
        await page.locator('#sessions li').waitFor()
        await look('return-to')
        await link.click()
        await page.waitForURL(`${APP}/**`)
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
    'stays on the page for an address that is not listed',
    visit(
      async ({ page, newUser, logIn, service }) => {
        await logIn(await newUser())
        assert.equal(new URL(page.url()).origin, service.url)
        for (const hostile of HOSTILE) {
          await page.goto(service.url + asked(hostile))
          await page.locator('#sessions li').waitFor()
          assert.ok(await page.isHidden('#continue'), hostile)
        }
      },
      { path: asked('https://evil.example/') },
    ),
  )
})
