// A real browser and the real service. A visit fails on unexpected errors in the browser, on violations
// of the page's content security policy, and on requests to other hosts.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, type TestContext } from 'node:test'
import axe from 'axe-core'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
  type Request,
} from 'playwright-core'
import { changeAt } from '../storage/fixtures.ts'
import { PASSWORD, startTestService, type TestService } from '../support/service.ts'

/** Chromium without windows, which takes half of the time for the same page. */
const HEADLESS = '/usr/bin/chromium-headless-shell'
const PLACES = [
  ...['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'],
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]
export const FLAGS = [
  ...['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  ...['--disable-component-update', '--disable-sync', '--disable-lcd-text'],
  // Chromium cannot use its sandbox as root. It visits this service only.
  ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
]
const FONTS = join(import.meta.dirname, 'fonts.conf')
/** The folder for pictures of all states; docs/screenshots has those that documents show. */
const { SCREENSHOTS } = process.env
/** Of these, there are also screenshots in dark and on a phone. */
const FULLY_PICTURED = ['form', 'account', 'change-password', 'reference']
const PHONE_WIDTH = 320
const DESKTOP = { width: 900, height: 780 }
/** For each step of a visit. A busy machine may need longer than the usual 30 s. */
export const STEP_LIMIT_MS = 300_000

export type Visit = {
  page: Page
  context: BrowserContext
  service: TestService
  print: (line: string) => void
  newUser: (name?: string) => Promise<string>
  fill: (email: string, password?: string) => Promise<void>
  logIn: (email: string) => Promise<void>
  /** Checks accessibility in light and dark and the width on a phone; takes screenshots if asked for. */
  look: (name: string) => Promise<void>
  picture: (name: string) => Promise<void>
}

type Options = {
  /** Statuses and network errors that the browser may report. */
  expected?: (number | string)[]
  context?: BrowserContextOptions
  path?: string
  /** Other origins that the page may go to; the test answers for them. */
  elsewhere?: string[]
}

/** A time zone where it is about noon: the page writes times of another day with their date. */
function zoneAtNoon(): string {
  const hoursWestOfGreenwich = new Date().getUTCHours() - 12
  return `Etc/GMT${hoursWestOfGreenwich < 0 ? '' : '+'}${hoursWestOfGreenwich}`
}

/** Starts a service and a browser for a suite; each test is a visit with its own browser profile. */
export function openVisits(env: Record<string, string> = {}) {
  let service: TestService
  let browser: Browser
  let users = 0
  before(async () => {
    browser = await launchBrowser()
    service = await startTestService('sqlite', { THROTTLE_CLIENT_FAILURES: '1000', ...env })
  })
  after(async () => {
    await browser?.close()
    await service?.stop()
  })

  return function visit(body: (visit: Visit) => Promise<void>, options: Options = {}) {
    return async (test: TestContext) => {
      const { expected = [], elsewhere = [], path = '/login' } = options
      const context = await browser.newContext({
        ignoreHTTPSErrors: true,
        viewport: DESKTOP,
        locale: 'en-GB',
        timezoneId: zoneAtNoon(),
        ...options.context,
      })
      context.setDefaultTimeout(STEP_LIMIT_MS)
      const complaints: string[] = []
      const requests: Request[] = []
      const isExpected = (text: string) =>
        expected.some(it => text.startsWith('Failed to load') && text.includes(`${it}`))
      context.on('console', message => {
        const isBad = ['error', 'warning'].includes(message.type())
        if (isBad && !isExpected(message.text())) complaints.push(message.text())
      })
      context.on('weberror', error => complaints.push(String(error.error())))
      context.on('request', request => {
        requests.push(request)
        const { origin } = new URL(request.url())
        if (origin !== service.url && !elsewhere.includes(origin)) complaints.push(request.url())
      })
      await context.addInitScript(
        `addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
          console.error('policy', violatedDirective, blockedURI))`,
      )
      for (const origin of elsewhere) {
        const answer = { contentType: 'text/html', body: '<title>elsewhere</title>' }
        await context.route(`${origin}/**`, route => route.fulfill(answer))
      }
      const page = await context.newPage()
      await page.goto(service.url + path)
      const fill = async (email: string, password = PASSWORD) => {
        await page.fill('#email', email)
        await page.fill('#password', password)
      }
      try {
        await body({
          page,
          context,
          service,
          fill,
          print: line => test.diagnostic(line),
          async newUser(name = 'Kate') {
            const email = `kate${++users}@example.com`
            await service.addUser(email, { name })
            return email
          },
          logIn: email => logInOn(page, email),
          picture: name => takePicture(page, name),
          look: name => look(page, name),
        })
        assert.deepEqual(complaints, [])
        for (const request of requests) assert.doesNotMatch(request.url(), /[?&=].*password/)
      } finally {
        await context.close()
      }
    }
  }
}

export function launchBrowser(flags: string[] = []): Promise<Browser> {
  return chromium.launch({
    timeout: STEP_LIMIT_MS,
    executablePath: findHeadlessChromium(),
    args: [...FLAGS, ...flags],
    // Screenshots need a font that looks the same everywhere.
    env: { ...process.env, ...(SCREENSHOTS && { FONTCONFIG_FILE: FONTS }) },
  })
}

export const findHeadlessChromium = () => findChromium([HEADLESS, ...PLACES])

export function findChromium(places = PLACES): string {
  const asked = process.env.CHROMIUM
  const found = asked ?? places.find(place => existsSync(place))
  if (found && existsSync(found)) return found
  throw new Error(
    `There is no Chromium at ${asked ?? places.join(', ')}: install it ("npm run test:browser" does) or set CHROMIUM to where it is.`,
  )
}

async function look(page: Page, name: string): Promise<void> {
  await page.setViewportSize({ width: PHONE_WIDTH, height: 880 })
  assert.equal(await overflowOf(page), 0, `${name} is cut off on a phone`)
  if (FULLY_PICTURED.includes(name)) await takePicture(page, `${name}-phone`)
  await page.setViewportSize(DESKTOP)
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await assertAccessible(page)
    if (colorScheme === 'light') await takePicture(page, name)
    else if (FULLY_PICTURED.includes(name)) await takePicture(page, `${name}-dark`)
  }
  await page.emulateMedia({ colorScheme: 'light' })
}

/** By how many pixels the page is wider than its window. */
function overflowOf(page: Page): Promise<number> {
  return page.evaluate('document.documentElement.scrollWidth - document.body.offsetWidth')
}

/** Fails on violations of WCAG 2.2 AA and of the best practices of axe. */
export async function assertAccessible(page: Page): Promise<void> {
  if (!(await page.evaluate(`'axe' in window`))) await page.evaluate(axe.source)
  const { violations } = await page.evaluate<axe.AxeResults>('axe.run()')
  const found = violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)])
  assert.deepEqual(found, [])
}

async function takePicture(page: Page, name: string): Promise<void> {
  if (!SCREENSHOTS) return
  mkdirSync(SCREENSHOTS, { recursive: true })
  await page.screenshot({
    path: join(SCREENSHOTS, `${name}.png`),
    animations: 'disabled',
  })
}

/** The user's password stays the same, but is now temporary. */
export async function makeTemporary({ store, now }: TestService, email: string): Promise<void> {
  const user = await store.users.findByEmail(email)
  assert.ok(user)
  const until = new Date(now().getTime() + 3_600_000)
  await store.users.setPassword(user.id, user.passwordHash, changeAt(now()), until)
}

export const sessionsOf = (page: Page) => page.locator('.session')

/** Logs in on a page that shows the form. */
export async function logInOn(page: Page, email: string): Promise<void> {
  await page.fill('#email', email)
  await page.fill('#password', PASSWORD)
  await page.click('#log-in')
  await sessionsOf(page).first().waitFor()
}

/** Waits until the element with this id has the focus. */
export const isFocused = (page: Page, id: string) => page.locator(`#${id}:focus`).waitFor()

/** Waits until the notice shows this sentence. */
export const says = (page: Page, sentence: string | RegExp) =>
  page.locator('#notice').filter({ hasText: sentence }).waitFor()
