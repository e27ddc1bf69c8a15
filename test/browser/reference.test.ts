// The reference of the API in a browser.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openVisits } from './browser.ts'

describe('the reference of the API in a browser', () => {
  const visit = openVisits()
  test(
    'leads to every operation, and opens its answers',
    visit(
      async ({ page, service, look }) => {
        assert.equal(await page.title(), 'API reference · Login Service')
        await look('reference')
        const links = page.locator('nav a')
        const { text } = await service.call({ method: 'GET', path: '/openapi.json' })
        const operations = Object.values<object>(JSON.parse(text).paths).flatMap(Object.keys)
        assert.equal(await links.count(), operations.length)
        await page.getByRole('link', { name: 'Log in with email and password' }).click()
        const login = page.locator('#logIn')
        assert.equal(await login.getByText('"accessToken"').isVisible(), true)
        const failure = login.getByText('INVALID_CREDENTIALS')
        assert.equal(await failure.isVisible(), false)
        await login.locator('summary').click()
        assert.equal(await failure.isVisible(), true)
        for (const details of await page.locator('details').all()) {
          await details.evaluate('it => { it.open = true }')
        }
        await look('reference-answers')
      },
      { path: '/docs' },
    ),
  )
})
