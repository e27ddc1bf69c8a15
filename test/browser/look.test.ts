// Appearance: sizes, zoom, motion, forced colours and brands; and the bytes of a first visit.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { assertAccessible, openVisits, overflowOf } from './browser.ts'

const FIRST_VISIT_MAX_BYTES = 30_000
/** WCAG 2.2, 2.5.8. */
const TARGET_MIN_PX = 24

describe('the appearance of the page', () => {
  const visit = openVisits()

  test(
    'is not cut off at 200 % zoom or with text of twice the size',
    visit(async ({ page, newUser, logIn }) => {
      await page.setViewportSize({ width: 640, height: 400 })
      assert.equal(await overflowOf(page), 0)
      await page.evaluate(`document.documentElement.style.fontSize = '200%'`)
      const size = `getComputedStyle(document.documentElement).fontSize`
      assert.equal(await page.evaluate(size), '32px')
      await page.setViewportSize({ width: 320, height: 400 })
      assert.equal(await overflowOf(page), 0)
      await logIn(await newUser())
      assert.equal(await overflowOf(page), 0)
    }),
  )

  test(
    'has targets of at least 24 pixels, and outlines the focused element',
    visit(async ({ page, newUser, logIn, service }) => {
      const sizes = () =>
        page.evaluate<number[]>(`[...document.querySelectorAll('button, input, a')]
          .map(it => it.getBoundingClientRect()).filter(({ width }) => width > 0)
          .flatMap(({ width, height }) => [width, height])`)
      const outline = () => page.evaluate('getComputedStyle(document.activeElement).outlineStyle')
      const assertUsable = async (stops: number) => {
        assert.ok(Math.min(...(await sizes())) >= TARGET_MIN_PX)
        for (let i = 0; i < stops; i++) {
          await page.keyboard.press('Tab')
          assert.equal(await outline(), 'solid')
        }
      }
      await page.locator('#email:focus').waitFor()
      await assertUsable(3)
      const email = await newUser()
      await service.login(email, 'correct horse battery staple')
      await logIn(email)
      await assertUsable(3)
    }),
  )

  test(
    'has no animation with reduced motion, and keeps its borders in forced colours',
    visit(
      async ({ page, fill }) => {
        await page.route('**/login', () => {})
        await fill('kate@example.com')
        await page.click('#log-in')
        await page.locator('#log-in[aria-busy=true] .spinner').waitFor()
        const animation = `getComputedStyle(document.querySelector('.spinner')).animationName`
        assert.equal(await page.evaluate(animation), 'none')
        await page.emulateMedia({ forcedColors: 'active' })
        const border = `getComputedStyle(document.getElementById('log-in')).borderStyle`
        assert.equal(await page.evaluate(border), 'solid')
        await assertAccessible(page)
      },
      { context: { reducedMotion: 'reduce' } },
    ),
  )

  test(
    'has borders, focus rings and error colours in browsers that lack newer functions',
    visit(
      async ({ page, newUser, logIn }) => {
        const style = (id: string, property: string) =>
          page.evaluate<string>(`getComputedStyle(document.getElementById('${id}')).${property}`)
        await page.locator('#email:focus').waitFor()
        assert.equal(await style('password', 'borderColor'), 'rgb(133, 139, 152)')
        assert.equal(await style('email', 'outlineColor'), 'rgb(52, 81, 178)')
        assert.equal(await style('log-in', 'backgroundColor'), 'rgb(52, 81, 178)')
        await page.click('#log-in')
        for (const property of ['borderColor', 'outlineColor']) {
          assert.equal(await style('email', property), 'rgb(179, 38, 30)')
        }
        assert.equal(await page.getAttribute('#email', 'aria-invalid'), 'true')
        await page.emulateMedia({ colorScheme: 'dark' })
        assert.equal(await style('email', 'borderColor'), 'rgb(255, 157, 148)')
        assert.equal(await style('form', 'color'), 'rgb(236, 238, 242)')
        await logIn(await newUser())
        await assertAccessible(page)
      },
      {
        context: { reducedMotion: 'reduce' },
        async prepare(page) {
          // Reflected ARIA properties are in Firefox from 119 on.
          await page.addInitScript(`for (const name of Object.getOwnPropertyNames(Element.prototype)) {
            if (name.startsWith('aria')) delete Element.prototype[name]
          }`)
          await page.route('**/login.css', async route => {
            const response = await route.fetch()
            const css = await response.text()
            const body = css.replaceAll(/\b(light-dark|color-mix|oklch|lab|lch)\(/g, 'unknown(')
            await route.fulfill({ response, body: body.replaceAll('scrollbar-gutter', 'unknown') })
          })
        },
      },
    ),
  )

  test(
    'leads from an address where there is nothing to the login',
    visit(
      async ({ page, look }) => {
        await page.getByRole('heading', { name: 'Page not found' }).waitFor()
        await look('not-found')
        await page.getByRole('link', { name: 'To the login' }).click()
        await page.locator('#log-in:enabled').waitFor()
      },
      { path: '/nothing', expected: [404] },
    ),
  )

  test(
    'does not move its logo between the form and the account',
    visit(async ({ page, newUser, logIn }) => {
      const place = () => page.locator('header').boundingBox()
      await page.locator('#email:focus').waitFor()
      const before = await place()
      await logIn(await newUser())
      assert.deepEqual(await place(), before)
    }),
  )

  test(
    'has more contrast if asked for, dims nothing twice in forced colours, and prints without buttons',
    visit(
      async ({ page, fill, newUser, logIn, service }) => {
        const email = await newUser()
        const style = (selector: string, property: string) =>
          page.evaluate<string>(
            `getComputedStyle(document.querySelector('${selector}')).${property}`,
          )
        await page.emulateMedia({ contrast: 'more' })
        assert.equal(await style('#email', 'borderColor'), await style('#form', 'color'))
        for (let i = 0; i < 5; i++) await service.login('absent@example.com', 'wrong password')
        await fill('absent@example.com', 'wrong password')
        await page.click('#log-in')
        await page.locator('#log-in:disabled').waitFor()
        await page.emulateMedia({ contrast: 'no-preference', forcedColors: 'active' })
        assert.equal(await style('#log-in', 'opacity'), '1')
        await page.fill('#email', 'other@example.com')
        await page.locator('#log-in:enabled').waitFor()
        const [primary, other] = await Promise.all(
          ['#log-in', '#reveal'].map(button => style(button, 'backgroundColor')),
        )
        assert.notEqual(primary, other)
        await assertAccessible(page)
        assert.equal(await style('label', 'opacity'), '1')
        await page.emulateMedia({ forcedColors: 'none' })
        await logIn(email)
        await page.emulateMedia({ media: 'print' })
        assert.equal(await page.locator('button:visible').count(), 0)
      },
      { expected: [429], context: { reducedMotion: 'reduce' } },
    ),
  )

  test(
    'transfers less than 30 KB at the first visit',
    visit(async ({ page, context, print }) => {
      await page.locator('#email:focus').waitFor()
      const cdp = await context.newCDPSession(page)
      await cdp.send('Network.enable')
      await cdp.send('Network.setCacheDisabled', { cacheDisabled: true })
      let bytes = 0
      let files = 0
      cdp.on('Network.loadingFinished', ({ encodedDataLength }) => {
        bytes += encodedDataLength
        files++
      })
      await page.reload({ waitUntil: 'networkidle' })
      await page.locator('#email').waitFor()
      print(`first visit: ${bytes} bytes in ${files} answers, headers included`)
      // The icon of the tab, which a browser without tabs does not load, is the logo again.
      assert.ok(files >= 5 && bytes < FIRST_VISIT_MAX_BYTES, String(bytes))
    }),
  )
})

const folder = mkdtempSync(join(tmpdir(), 'login-brand-'))
after(() => rmSync(folder, { recursive: true }))
const logo = join(folder, 'logo.svg')
writeFileSync(
  logo,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 40"><path d="M2 38 20 4l12 22 8-12 18 24z" fill="#2f9e44"/></svg>`,
)

for (const [name, color] of [
  ['yellow', '#ffd43b'],
  ['black', '#000'],
] as const) {
  describe(`a ${name} brand`, () => {
    const visit = openVisits({
      BRAND_NAME: 'Example & Co',
      BRAND_COLOR: color,
      BRAND_LOGO_FILE: logo,
      HELP_TEXT: 'Trouble logging in?',
      HELP_URL: 'mailto:help@example.com',
      TERMS_URL: 'https://example.com/terms',
      PRIVACY_URL: 'https://example.com/privacy',
      HOME_URL: 'https://example.com/start',
    })

    test(
      'is accessible, and shows its name and logo',
      visit(async ({ page, newUser, logIn, look }) => {
        await page.getByText('Example & Co').waitFor()
        const width = `document.querySelector('header img').naturalWidth`
        assert.ok(Number(await page.evaluate(width)) > 0)
        await look(`brand-${name}`)
        await logIn(await newUser())
        await assertAccessible(page)
        const home = page.getByRole('link', { name: 'Go to example.com' })
        assert.equal(await home.getAttribute('href'), 'https://example.com/start')
        await page.getByRole('link', { name: 'Terms' }).waitFor()
      }),
    )
  })
}
