// A real browser and the real service. A visit fails on unexpected errors in the browser, on violations
// of the page's content security policy, and on requests to other hosts.
import assert from 'node:assert/strict'
import { hash, X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import axe from 'axe-core'
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { PASSWORD, type TestService } from '../support/service.ts'

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
/** In other colours, only these rules of axe can find something else. */
const ABOUT_COLOURS = { runOnly: ['color-contrast', 'link-in-text-block'] }
/** The help, hints and the footer must be as readable as AAA demands. */
const SMALL = { include: ['header', 'footer', '.foot', '.hint'] }
const AAA = { runOnly: ['color-contrast-enhanced'] }
const PHONE_WIDTH = 320
const DESKTOP = { width: 900, height: 780 }
/** For each step of a visit. A busy machine may need longer than the usual 30 s. */
export const STEP_LIMIT_MS = 300_000

let users = 0

type Options = {
  /** Statuses that the browser may report. */
  expected?: number[]
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

type Chromium = Awaited<ReturnType<typeof startChromium>>
type Visit = Omit<Awaited<ReturnType<typeof openVisit>>, 'context' | 'complaints'>

type Body = (visit: Visit) => Promise<void>

/** Each test is a visit with its own browser profile. */
export function createVisits(browser: Chromium, service: TestService) {
  return (name: string, ...given: [Body] | [Options, Body]) => {
    const [options, body] = given.length === 2 ? given : [{}, given[0]]
    test(name, async () => {
      const { context, complaints, ...visit } = await openVisit(browser, service, options)
      after(() => context.close())
      await body(visit)
      assert.deepEqual(complaints, [])
    })
  }
}

async function openVisit(browser: Chromium, service: TestService, options: Options) {
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
  const isExpected = (text: string) =>
    text.startsWith('Failed to load') && expected.some(status => text.includes(`${status}`))
  context.on('console', message => {
    const isBad = ['error', 'warning'].includes(message.type())
    if (isBad && !isExpected(message.text())) complaints.push(message.text())
  })
  context.on('weberror', error => complaints.push(String(error.error())))
  context.on('request', request => {
    const url = request.url()
    const isForeign = ![service.url, ...elsewhere].includes(new URL(url).origin)
    if (isForeign || /[?&=].*password/.test(url)) complaints.push(url)
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
  return {
    page,
    context,
    complaints,
    async newUser(name = 'Kate') {
      const email = `kate${++users}@example.com`
      await service.addUser(email, { name })
      return email
    },
    fill,
    /** Logs in on a page that shows the form. */
    async logIn(email: string) {
      await fill(email)
      await page.click('#log-in')
      await sessionsOf(page).first().waitFor()
    },
    /** Checks accessibility in light and dark and the width on a phone; takes screenshots if asked for. */
    look: (name: string) => look(page, name),
    picture: (name: string) => takePicture(page, name),
  }
}

export async function startChromium(flags: string[] = []) {
  const browser = await chromium.launch({
    timeout: STEP_LIMIT_MS,
    executablePath: findHeadlessChromium(),
    args: [...FLAGS, ...flags],
    // Screenshots need a font that looks the same everywhere.
    env: { ...process.env, ...(SCREENSHOTS && { FONTCONFIG_FILE: FONTS }) },
  })
  return {
    newContext: (options: BrowserContextOptions) => browser.newContext(options),
    stop: () => browser.close(),
  }
}

/** Chromium then takes certificates with this public key for valid. */
export const trustFlag = (publicKey: string) => `--ignore-certificate-errors-spki-list=${publicKey}`

/** The public key of the service's certificate, as that flag names it. */
export async function keyOfCertificate({ dataDir }: Pick<TestService, 'dataDir'>): Promise<string> {
  const file = await readFile(join(dataDir, 'development-cert.pem'))
  const { publicKey } = new X509Certificate(file)
  return hash('sha256', publicKey.export({ type: 'spki', format: 'der' }), 'base64')
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
  const overflow = 'document.documentElement.scrollWidth - document.body.offsetWidth'
  assert.equal(await page.evaluate(overflow), 0, `${name} is cut off on a phone`)
  await takePicture(page, `${name}-phone`)
  await page.setViewportSize(DESKTOP)
  await assertAccessible(page)
  await assertAccessible(page, AAA, SMALL)
  await takePicture(page, name)
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page, ABOUT_COLOURS)
  await assertAccessible(page, AAA, SMALL)
  await takePicture(page, `${name}-dark`)
  await page.emulateMedia({ colorScheme: 'light' })
}

/**
 * Nothing is cut off, and axe finds nothing, at these widths, in light and dark; nor is it at the last width with text of
 * twice the size. With a name, it takes pictures of the whole page if asked for.
 */
export async function assertUsable(page: Page, widths: readonly number[], name?: string) {
  const assertWhole = async (where: string) => {
    const overflow = 'document.documentElement.scrollWidth - document.body.offsetWidth'
    assert.equal(await page.evaluate(overflow), 0, `${name ?? 'the page'} is cut off ${where}`)
  }
  for (const width of widths) {
    await page.setViewportSize({ width, height: 880 })
    await assertWhole(`at ${width}`)
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme })
      await assertAccessible(page)
      if (name) await takePicture(page, `${name}-${width}-${colorScheme}`, true)
    }
  }
  const setSize = (size: string) =>
    page.evaluate(`document.documentElement.style.fontSize = '${size}'`)
  await setSize('200%')
  await assertWhole('with large text')
  await setSize('')
}

/** Fails on violations of WCAG 2.2 AA and of the best practices of axe. */
export async function assertAccessible(
  page: Page,
  options: axe.RunOptions = {},
  within = { include: ['html'] },
): Promise<void> {
  if (!(await page.evaluate(`'axe' in window`))) await page.evaluate(axe.source)
  const given = [within, { resultTypes: ['violations'], ...options }]
  const run = `axe.run(...${JSON.stringify(given)})`
  const { violations } = await page.evaluate<axe.AxeResults>(run)
  const found = violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)])
  assert.deepEqual(found, [])
}

async function takePicture(page: Page, name: string, fullPage = false): Promise<void> {
  if (!SCREENSHOTS) return
  mkdirSync(SCREENSHOTS, { recursive: true })
  await page.screenshot({
    path: join(SCREENSHOTS, `${name}.png`),
    animations: 'disabled',
    fullPage,
  })
}

export const sessionsOf = (page: Page) => page.locator('.session')

/** Waits until the element with this id has the focus. */
export const isFocused = (page: Page, id: string) => page.locator(`#${id}:focus`).waitFor()

/** Waits until the notice shows this sentence. */
export const says = (page: Page, sentence: string | RegExp) =>
  page.locator('#notice').filter({ hasText: sentence }).waitFor()
