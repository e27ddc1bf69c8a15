// Applications of another site log in by a code, with the files that docs/integrating.md names, in Chromium, Firefox
// and WebKit. The service is at 127.0.0.1 and the applications at localhost, which are different sites.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { freePort } from '../support/postgres-server.ts'
import { example, makeRecipeFolder, type RecipeFolder, recipe } from '../support/recipes.ts'
import { PASSWORD, startTestService, type TestService } from '../support/service.ts'
import { createVisitor, refreshIn } from '../support/visitor.ts'
import { makeTemporary } from './browser.ts'
import { BROWSER_NAMES, type Browser, eventually, startBrowser, type Window } from './webdriver.ts'

const SERVER = `
  import { readFileSync } from 'node:fs'
  import { createServer } from 'node:https'
  import { goToLogin, logIn, userOf } from './sessions.js'

  const { CERT_FILE, KEY_FILE, PORT } = process.env
  const tls = { cert: readFileSync(CERT_FILE), key: readFileSync(KEY_FILE) }
  createServer(tls, async (request, response) => {
    const user = userOf(request)
    const forgotten = ['__Host-app', '__Host-verifier'].map(name => name + '=; Max-Age=0; Path=/; Secure')
    if (request.url === '/forget') {
      response.writeHead(200, { 'Content-Type': 'text/html', 'Set-Cookie': forgotten }).end('<p>Forgotten')
    } else if (request.url === '/log-in') goToLogin(request, response)
    else if (request.url.startsWith('/logged-in')) await logIn(request, response)
    else if (user) response.writeHead(200, { 'Content-Type': 'text/html' }).end('<p>Hello ' + user.name)
    else response.writeHead(302, { Location: '/log-in' }).end()
  }).listen(PORT, 'localhost', () => console.log('https://localhost:' + PORT))`

let service: TestService
let folder: RecipeFolder
let users = 0
/** A page with tokens in memory, and a server with sessions of its own. */
const applications = { page: '', server: '' }
type ApplicationName = keyof typeof applications
const NAMES = Object.keys(applications) as ApplicationName[]

before(async () => {
  const [port, pagePort, serverPort] = [await freePort(), await freePort(), await freePort()]
  applications.page = `https://localhost:${pagePort}/`
  applications.server = `https://localhost:${serverPort}/`
  service = await startTestService('sqlite', {
    PORT: String(port),
    JWT_ISSUER: `https://127.0.0.1:${port}`,
    CODE_CALLBACKS: `${applications.page},${applications.server}logged-in`,
    // Otherwise every origin of this machine would be listed.
    CORS_ORIGINS: 'https://app.example.com',
    THROTTLE_CLIENT_FAILURES: '1000',
  })
  const addresses = {
    'https://login.example.com': service.url,
    'https://app.example.net/logged-in': `${applications.server}logged-in`,
    'https://app.example.net/': applications.page,
  }
  folder = await makeRecipeFolder(addresses, join(service.dataDir, 'development-cert.pem'))
  await folder.write('page-server.js', recipe('Node', 'js'))
  await folder.write('page.html', example('other-site.html'))
  await folder.write('sessions.js', example('other-site-server.js'))
  await folder.write('server.js', SERVER)
  await folder.serve('page-server.js', pagePort)
  await folder.serve('server.js', serverPort)
})
after(async () => {
  await folder?.remove()
  await service?.stop()
})

async function newUser(name: string): Promise<string> {
  const email = `user${++users}@example.com`
  await service.addUser(email, { name })
  return email
}

async function logIn(window: Window, email: string, password = PASSWORD): Promise<void> {
  await window.type('#email', email)
  await window.type('#password', password)
  await window.click('#log-in:enabled')
}

/** The address of an application with a code of another user, as an attacker would send it. */
async function addressOfOther(name: ApplicationName) {
  const email = await newUser('Eve')
  const returnTo = name === 'page' ? applications.page : `${applications.server}logged-in`
  const challenge = hash('sha256', 'a verifier of Eve', 'base64url')
  const query = new URLSearchParams({ return_to: returnTo, challenge })
  const leaving = await createVisitor(service).logIn(email, PASSWORD, `/login?${query}`)
  const user = await service.store.users.findByEmail(email)
  return { location: refreshIn(leaving) ?? '', userId: user?.id }
}

/** Waits for the login page. */
const isForm = (window: Window) =>
  eventually(async () => {
    assert.match(String(await window.url()), new RegExp(`^${service.url}/login\\?`))
    await window.shows('h1', en.loginTitle)
  })

describe('an application of another site', { concurrency: true }, () => {
  for (const browserName of BROWSER_NAMES) {
    describe(`in ${browserName}`, { concurrency: 1 }, () => {
      let browser: Browser
      before(async () => {
        browser = await startBrowser(browserName, 'en-GB')
      })
      after(() => browser?.stop())

      /** A new window, without the cookies of the visits before. */
      async function openWindow(): Promise<Window> {
        const window = await browser.openWindow()
        await window.open(`${service.url}/login`)
        await window.forgetCookies()
        // The page has no cookies.
        await window.open(`${applications.server}forget`)
        await window.shows('p', 'Forgotten')
        return window
      }

      for (const name of NAMES) {
        test(`logs in and knows the user: a ${name}`, async () => {
          const window = await openWindow()
          await window.open(applications[name])
          await isForm(window)
          await logIn(window, await newUser('Kate'))
          await window.shows('p', 'Hello Kate')
          assert.equal(await window.url(), applications[name])
          assert.deepEqual(await window.evaluate('[document.cookie, document.referrer]'), ['', ''])
          // The other application, and this one in another window, need no form and no click.
          for (const other of NAMES) {
            const tab = await browser.openWindow()
            await tab.open(applications[other])
            await tab.shows('p', 'Hello Kate')
          }
          await window.reload()
          await window.shows('p', 'Hello Kate')
        })

        test(`does not use a code that its browser did not ask for: a ${name}`, async () => {
          const window = await openWindow()
          const { location, userId } = await addressOfOther(name)
          await window.open(location)
          await isForm(window)
          await logIn(window, await newUser('Kate'))
          await window.shows('p', 'Hello Kate')
          const lines = service.logged().filter(({ event }) => event === 'code.redeemed')
          assert.ok(!lines.some(line => line.userId === userId))
        })
      }

      // What follows is up to the login page alone, whose own tests run in all three.
      if (browserName !== 'chromium') return

      test('logs out, and asks for the password again', async () => {
        const window = await openWindow()
        await window.open(applications.page)
        await logIn(window, await newUser('Kate'))
        await window.shows('p', 'Hello Kate')
        await window.click('button')
        await isForm(window)
        // At the login page the user is still logged in, and must log out there, too.
        const tab = await browser.openWindow()
        await tab.open(applications.page)
        await tab.shows('p', 'Hello Kate')
        await tab.open(`${service.url}/login`)
        await tab.click('#log-out')
        await isForm(tab)
        await tab.open(applications.page)
        await isForm(tab)
        await logIn(window, await newUser('Ann'))
        await window.shows('p', 'Hello Ann')
      })

      test('gets its code after a temporary password was replaced', async () => {
        const email = await newUser('Kate')
        await makeTemporary(service, email)
        const window = await openWindow()
        await window.open(applications.page)
        await logIn(window, email)
        await window.shows('#notice', en.temporary)
        await window.type('#password', PASSWORD)
        await window.type('#new-password', 'first new password')
        await window.click('#save:enabled')
        await window.shows('p', 'Hello Kate')
      })
    })
  }
})
