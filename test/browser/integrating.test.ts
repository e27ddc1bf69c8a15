// Runs the recipes of docs/integrating.md for pages, as printed: the browser finds each host at a port of this machine.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer, request as requestTls } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { BrowserContext, Page } from 'playwright-core'
import { newUserWithApp } from '../support/authenticator.ts'
import { own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { PROJECT } from '../support/process.ts'
import { makeRecipeFolder, recipe, serverWithSessions } from '../support/recipes.ts'
import { PASSWORD, startTestService } from '../support/service.ts'
import { STEP_LIMIT_MS, sessionsOf, startChromium } from './browser.ts'

const LOGIN = 'https://login.example.com'
const APP = 'https://app.example.com'
const OTHER_SITE = 'https://app.example.net'
/** Another scheme is another site, too. */
const PLAIN = 'http://app.example.com'
const EMAIL = 'kate@example.com'
const script = (code: string) => `<!doctype html><body><script type="module">${code}</script>`
const PAGES: Record<string, string> = {
  '/': recipe('1.', 'html'),
  '/idle': recipe('1.', 'html').replace('</script>', `${recipe('1.', 'js')}</script>`),
  '/form': recipe('2.', 'html'),
  '/tokens': script(
    recipe('3.', 'js').replace('export async function', 'window.logIn = async function'),
  ),
}
const CLIENT = readFileSync(join(PROJECT, 'examples/login-client.js'))

const RENDERING_SERVER = serverWithSessions(
  'logIn',
  `if (request.url === '/login-client.js') send('text/javascript', readFileSync('login-client.js'))
    else if (request.method === 'POST') await logIn(request, response)
    else if (request.url === '/log-in') send('text/html', readFileSync('page.html'))`,
)

/** Logs in with a cookie, and prints the name of the user or the code of the failure. */
const logInByCookie = (login: string) => `import('/login-client.js').then(({ LoginClient }) =>
  new LoginClient(${login}, { cookie: true }).login('${EMAIL}', '${PASSWORD}')
    .then(({ name }) => name, ({ code }) => code))`

/** Leaves a client in the page. */
const openClient = (options: string) => `import('/login-client.js').then(({ LoginClient }) => {
  window.client = new LoginClient('${LOGIN}', ${options})
})`

/** The options of a client whose refresh token is in a storage that all tabs share. */
const IN_STORAGE = `{ storage: {
  read: async () => localStorage.getItem('token'),
  write: async token => localStorage.setItem('token', token),
} }`

const shows = (page: Page, text: string) => page.getByText(text).waitFor()

/** On a login page that shows the form. */
async function logInOnPage(page: Page): Promise<void> {
  await page.fill('#email', EMAIL)
  await page.fill('#password', PASSWORD)
  await page.click('#log-in')
}

async function listen(server: Server, host: string): Promise<number> {
  after(() => server.close())
  await new Promise<void>(resolve => server.listen(0, host, resolve))
  return (server.address() as AddressInfo).port
}

describe('the recipes in Chromium', async () => {
  const [, corsOrigins, returnToOrigins = ''] =
    /^CORS_ORIGINS=(\S+) RETURN_TO_ORIGINS=(\S+) npm start/.exec(recipe('1.', 'sh')) ?? []
  const service = await own(
    startTestService('sqlite', {
      CORS_ORIGINS: `${corsOrigins},${OTHER_SITE},${PLAIN}`,
      RETURN_TO_ORIGINS: returnToOrigins,
    }),
  )
  await service.addUser(EMAIL, { name: 'Kate' })

  /** The pages of the recipes, and an API that asks the login service about the token. */
  const serveApplication: RequestListener = async ({ url = '', headers }, response) => {
    if (url === '/login-client.js') {
      response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(CLIENT)
    } else if (url === '/api/me') {
      const { authorization = '' } = headers
      const path = '/api/v1/auth/session'
      const answer = await service.call({ method: 'GET', path, headers: { authorization } })
      response.writeHead(answer.status).end(JSON.stringify(answer.json.data?.user ?? {}))
    } else {
      const page = PAGES[url.split('?')[0] ?? '']
      response.writeHead(page ? 200 : 404, { 'Content-Type': 'text/html' }).end(page)
    }
  }

  const file = (name: string) => readFileSync(join(service.dataDir, name))
  const tls = { cert: file('development-cert.pem'), key: file('development-key.pem') }
  const port = await listen(createTlsServer(tls, serveApplication), '127.0.0.1')
  const plainPort = await listen(createServer(serveApplication), '127.0.0.1')
  const browser = await own(
    startChromium([
      `--host-resolver-rules=MAP login.example.com:443 127.0.0.1:${new URL(service.url).port}, MAP *:443 127.0.0.1:${port}, MAP *:80 127.0.0.1:${plainPort}`,
    ]),
  )

  /** Each test is a visit with its own browser profile. */
  function test(name: string, body: (page: Page, context: BrowserContext) => Promise<void>) {
    it(name, async () => {
      const context = await browser.newContext({ ignoreHTTPSErrors: true, locale: 'en-GB' })
      after(() => context.close())
      context.setDefaultTimeout(STEP_LIMIT_MS)
      await body(await context.newPage(), context)
    })
  }

  test('same site, login page: to the page, back to the same address, and known after a reload', async (page, context) => {
    await page.goto(`${APP}/?order=1&page=2`)
    await page.waitForURL(`${LOGIN}/login?**`)
    await logInOnPage(page)
    await page.waitForURL(`${APP}/?order=1&page=2`)
    await shows(page, 'Hello Kate')
    await page.reload()
    await shows(page, 'Hello Kate')
    // No script can read the cookies, and no other host gets them.
    assert.equal(await page.evaluate('document.cookie'), '')
    const domains = (await context.cookies()).map(({ domain }) => domain)
    assert.deepEqual([...new Set(domains)], ['login.example.com'])
  })

  test('same site: the printed timer keeps the session from expiring in a tab that is not used', async page => {
    await page.goto(`${APP}/idle`)
    await logInOnPage(page)
    await shows(page, 'Hello Kate')
    await page.clock.install()
    await page.reload()
    await shows(page, 'Hello Kate')
    const refreshed = page.waitForResponse(
      response => response.url().endsWith('/refresh') && response.request().method() === 'POST',
    )
    await page.clock.runFor(6 * 60_000)
    assert.equal((await refreshed).status(), 200)
  })

  test('same site, own form: shows what is wrong, then logs in', async page => {
    await page.goto(`${APP}/form`)
    await page.fill('[name=email]', EMAIL)
    await page.fill('[name=password]', 'wrong password')
    await page.click('button')
    await shows(page, 'Invalid email or password')
    await page.fill('[name=password]', PASSWORD)
    await page.click('button')
    await page.waitForURL(`${APP}/`)
    await shows(page, 'Hello Kate')
  })

  test('same site, own form: takes the code of a second factor', async page => {
    await service.addUser('app@example.com', { name: 'Lea' })
    const { app } = await newUserWithApp(service, () => '127.0.0.1', 'app@example.com')
    await page.goto(`${APP}/form`)
    await page.fill('[name=email]', 'app@example.com')
    await page.fill('[name=password]', PASSWORD)
    await page.click('button')
    await shows(page, 'Invalid email or password')
    await page.fill('[name=otp]', app.code())
    await page.click('button')
    await page.waitForURL(`${APP}/`)
    await shows(page, 'Hello Lea')
  })

  test('same site: in another tab another user has logged in; the client does not act for it', async (page, context) => {
    await service.addUser('ann@example.com', { name: 'Ann' })
    await page.goto(`${APP}/form`)
    await page.evaluate(openClient('{ cookie: true }'))
    await page.evaluate(`client.login('${EMAIL}', '${PASSWORD}')`)
    const tab = await context.newPage()
    await tab.goto(`${APP}/form`)
    await tab.fill('[name=email]', 'ann@example.com')
    await tab.fill('[name=password]', PASSWORD)
    await tab.click('button')
    await shows(tab, 'Hello Ann')
    await page.evaluate(`(now => { Date.now = () => now() + 6 * 60_000 })(Date.now)`)
    const save = () => page.evaluate(`client.accessToken().then(() => 'saved', ({ code }) => code)`)
    assert.equal(await save(), 'OTHER_USER')
    assert.equal(await page.evaluate('client.user'), null)
    assert.equal(await save(), 'OTHER_USER')
    assert.equal(await page.evaluate('client.restore()'), null)
    // Ann logs out, and logs in again.
    await tab.evaluate(openClient('{ cookie: true }'))
    await tab.evaluate('client.restore().then(() => client.logout())')
    assert.equal(await save(), 'INVALID_TOKEN')
    await tab.evaluate(`client.login('ann@example.com', '${PASSWORD}')`)
    assert.equal(await save(), 'OTHER_USER')
    // After logout() the page belongs to the next user.
    await page.evaluate('client.logout()')
    assert.equal(await page.evaluate('client.restore().then(({ name }) => name)'), 'Ann')
  })

  // A service as `npm start` has it, and the printed files as applications on localhost.
  const [appPort, renderingPort] = [await freePort(), await freePort()]
  const [app, rendering] = [`https://localhost:${appPort}`, `https://localhost:${renderingPort}`]
  const local = await own(
    startTestService('sqlite', { JWT_ISSUER: '', RETURN_TO_ORIGINS: `${app},${rendering}` }),
  )
  await local.addUser(EMAIL, { name: 'Kate' })
  const login = local.url.replace('127.0.0.1', 'localhost')
  async function serve(port: number, files: Record<string, string>): Promise<void> {
    const certFile = join(local.dataDir, 'development-cert.pem')
    const folder = await own(makeRecipeFolder({ [LOGIN]: login }, certFile))
    for (const [name, code] of Object.entries(files)) await folder.write(name, code)
    assert.equal(await folder.serve('server.js', port), `https://localhost:${port}`)
  }

  test('the whole application logs in and out on localhost', async page => {
    await serve(appPort, { 'page.html': recipe('1.', 'html'), 'server.js': recipe('Node', 'js') })
    await page.goto(app)
    await logInOnPage(page)
    await page.waitForURL(`${app}/`)
    await shows(page, 'Hello Kate')
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.waitForURL(`${login}/login?**`)
    await page.locator('#email').waitFor()
    await page.goto(app)
    await page.waitForURL(`${login}/login?**`)
  })

  test('a server-rendered application opens a session of its own with the access token', async page => {
    const lines = /const response[\s\S]*button\.hidden = false/
    await serve(renderingPort, {
      'page.html': recipe('1.', 'html').replace(lines, () => recipe('7.', 'js')),
      'sessions.js': recipe('7.', 'js', 1),
      'server.js': RENDERING_SERVER,
    })
    await page.goto(rendering)
    await logInOnPage(page)
    await page.waitForURL(`${rendering}/`)
    await shows(page, 'Hello Kate')
    const cookies = await page.context().cookies(rendering)
    const own = cookies.find(({ name }) => name === '__Host-app')
    assert.ok(own?.httpOnly && own.secure)
    // Only a valid access token opens a session.
    const answers =
      await page.evaluate(`Promise.all([{}, { Authorization: 'Bearer x' }].map(headers =>
      fetch('/log-in', { method: 'POST', headers }).then(({ status }) => status)))`)
    assert.deepEqual(answers, [401, 401])
    // Without its own session, the application needs no second login.
    await page.context().clearCookies({ name: '__Host-app' })
    await page.goto(rendering)
    await page.waitForURL(`${rendering}/`)
    await shows(page, 'Hello Kate')
  })

  test('another site: tokens work, the cookie is not used', async (page, context) => {
    await page.goto(`${OTHER_SITE}/tokens`)
    await page.waitForFunction('window.logIn')
    await page.evaluate(`logIn('${EMAIL}', '${PASSWORD}')`)
    await shows(page, 'Hello Kate: 200')
    assert.deepEqual(await context.cookies(), [])
    // Even after a login on the login page.
    await page.goto(`${LOGIN}/login`)
    await logInOnPage(page)
    await sessionsOf(page).first().waitFor()
    for (const site of [OTHER_SITE, PLAIN]) {
      await page.goto(`${site}/tokens`)
      const status = await page.evaluate(
        `fetch('${LOGIN}/api/v1/auth/session', { credentials: 'include' }).then(({ status }) => status)`,
      )
      assert.equal(status, 401, site)
    }
  })

  test('Vite on http://localhost: a login by cookie fails with a name, and works through the printed proxy', async page => {
    const printed = recipe('In development', 'js').replace('https://localhost:8443', login)
    const config = await import(`data:text/javascript,${encodeURIComponent(printed)}`)
    const { proxy } = config.default.server
    const [path = ''] = Object.keys(proxy)
    const { target, secure } = proxy[path]
    // As Vite does: the request is passed on with its headers.
    const vite = createServer((incoming, response) => {
      const { url = '', method, headers } = incoming
      if (!url.startsWith(path)) return serveApplication(incoming, response)
      const options = { method, headers, rejectUnauthorized: secure }
      const outgoing = requestTls(target + url, options, answer => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      })
      incoming.pipe(outgoing)
    })
    await page.goto(`http://localhost:${await listen(vite, 'localhost')}/tokens`)
    assert.equal(await page.evaluate(logInByCookie(`'${login}'`)), 'NO_COOKIE')
    assert.equal(await page.evaluate(logInByCookie('location.origin')), 'Kate')
    await page.reload()
    const restored =
      await page.evaluate(`import('/login-client.js').then(async ({ LoginClient }) => {
      const client = new LoginClient(location.origin, { cookie: true })
      const { name } = await client.restore()
      await client.logout()
      return [name, await client.restore()]
    })`)
    assert.deepEqual(restored, ['Kate', null])
  })

  test('behind a proxy: the printed lines log out', async page => {
    await page.goto(`${LOGIN}/login`)
    await logInOnPage(page)
    await sessionsOf(page).first().waitFor()
    // The application shares the origin of the login page.
    await page.evaluate(`(async () => { ${recipe('6.', 'js')} })()`)
    await page.locator('#email').waitFor()
  })

  test('another site: tabs that share a storage refresh one after the other, each with a new token', async (page, context) => {
    const tab = await context.newPage()
    for (const open of [page, tab]) {
      await open.goto(`${OTHER_SITE}/tokens`)
      await open.evaluate(openClient(IN_STORAGE))
    }
    await page.evaluate(`client.login('${EMAIL}', '${PASSWORD}')`)
    const linesBefore = service.logged().length
    await page.reload()
    await page.evaluate(openClient(IN_STORAGE))

    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    await page.route('**/refresh', async route => {
      await released
      await route.continue()
    })
    const refreshing = page.waitForRequest('**/refresh')
    const restored = [page.evaluate('client.restore()')]
    await refreshing
    restored.push(tab.evaluate('client.restore()'))
    await tab.waitForFunction('navigator.locks.query().then(({ pending }) => pending.length === 1)')
    release()
    for (const user of await Promise.all(restored)) assert.ok(user)
    const lines = service.logged().slice(linesBefore)
    const refreshes = lines.filter(({ event }) => event === 'session.refreshed')
    assert.deepEqual(
      refreshes.map(({ repeated }) => repeated),
      [undefined, undefined],
    )
  })
})
