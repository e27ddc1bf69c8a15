// What users do in Chromium, Firefox and WebKit: on the pages, with and without scripts, and at applications of another
// site, which log in by a code with the files that docs/integrating.md names. The service is at 127.0.0.1 and these
// applications at localhost, which are different sites.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import de from '../../src/page/texts/de.json' with { type: 'json' }
import en from '../../src/page/texts/en.json' with { type: 'json' }
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { own } from '../support/own.ts'
import { eventually, freePort } from '../support/postgres-server.ts'
import { example, makeRecipeFolder, recipe, serverWithSessions } from '../support/recipes.ts'
import { PASSWORD, startTestService } from '../support/service.ts'
import { createVisitor, makeTemporary, refreshIn } from '../support/visitor.ts'
import { BROWSER_NAMES, startBrowser, type Window } from './webdriver.ts'

const ENTER = '\uE007'
/** How the list of sessions calls a browser. */
const DEVICES = { chromium: /Chrom/, firefox: /Firefox/, webkit: /Safari/ }

const SERVER = serverWithSessions(
  'goToLogin, logIn',
  `if (request.url === '/forget') {
      const gone = ['app', 'verifier'].map(name => '__Host-' + name + '=; Max-Age=0; Path=/; Secure')
      response.setHeader('Set-Cookie', gone)
      send('text/html', '<p>Forgotten')
    } else if (request.url === '/log-in') goToLogin(request, response)
    else if (request.url.startsWith('/logged-in')) await logIn(request, response)`,
)

async function change(window: Window, current: string, next: string): Promise<void> {
  await window.type('#password', current)
  await window.type('#new-password', next)
  await window.click('#save:enabled')
}

describe('the pages', { concurrency: true }, async () => {
  const [port, pagePort, serverPort] = [await freePort(), await freePort(), await freePort()]
  /** A page with tokens in memory, and a server with sessions of its own. */
  const [page, server] = [`https://localhost:${pagePort}/`, `https://localhost:${serverPort}/`]
  const callback = `${server}logged-in`
  /** An application of the same site, which needs no code. */
  const application = createServer((_, response) => response.end('the application'))
  await new Promise<void>(resolve => application.listen(0, '127.0.0.1', resolve))
  after(() => application.close())
  const applicationUrl = `http://127.0.0.1:${(application.address() as AddressInfo).port}`
  // The other suites of the pages use SQLite.
  const service = await own(
    startTestService('postgres', {
      PORT: String(port),
      JWT_ISSUER: `https://127.0.0.1:${port}`,
      RETURN_TO_ORIGINS: applicationUrl,
      CODE_CALLBACKS: `${page},${callback}`,
      // Otherwise every origin of this machine would be listed.
      CORS_ORIGINS: 'https://app.example.com',
      THROTTLE_CLIENT_FAILURES: '1000',
    }),
  )
  const addresses = {
    'https://login.example.com': service.url,
    'https://app.example.net/logged-in': callback,
    'https://app.example.net/': page,
  }
  const certFile = join(service.dataDir, 'development-cert.pem')
  const folder = await own(makeRecipeFolder(addresses, certFile))
  await folder.write('page-server.js', recipe('Node', 'js'))
  await folder.write('page.html', example('other-site.html'))
  await folder.write('sessions.js', example('other-site-server.js'))
  await folder.write('server.js', SERVER)
  await folder.serve('page-server.js', pagePort)
  await folder.serve('server.js', serverPort)

  let users = 0
  async function newUser(name = 'Kate'): Promise<string> {
    const email = `user${++users}@example.com`
    await service.addUser(email, { name })
    return email
  }

  /** Waits for the login page that an application has led to. */
  const isForm = (window: Window) =>
    eventually(async () => {
      assert.match(String(await window.url()), new RegExp(`^${service.url}/login\\?`))
      await window.shows('h1', en.loginTitle)
    })

  for (const name of BROWSER_NAMES) {
    for (const hasScripts of [true, false]) {
      describe(`in ${name} ${hasScripts ? 'with' : 'without'} scripts`, {
        concurrency: 1,
      }, async () => {
        const language = hasScripts ? 'en-GB' : 'de-AT'
        const browser = await own(startBrowser(name, language, { hasScripts }))
        const window = await browser.openWindow()
        const texts = hasScripts ? en : de

        /** Each test is a visit of a new user, without the cookies of the visits before. */
        const test = (name: string, body: (email: string) => Promise<void>) =>
          it(name, async () => {
            await window.open(`${server}forget`)
            await window.shows('p', 'Forgotten')
            await window.open(`${service.url}/login`)
            await window.forgetCookies()
            await window.reload()
            await window.shows('#form', /./)
            await body(await newUser())
          })

        test('say that the password is wrong, with the focus on it, take the right one, and list the sessions', async email => {
          await service.login(email, PASSWORD)
          await window.logIn(email, 'not the password')
          await window.shows('#notice', texts.invalidProof)
          await eventually(async () =>
            assert.equal(await window.evaluate('document.activeElement.id'), 'notice'),
          )
          await window.type('#password', PASSWORD + ENTER)
          await window.shows('#name', 'Kate')
          await window.shows('.session', DEVICES[name], /./)
          await window.shows('.badge', texts.thisDevice)
          await window.click('.session button')
          await window.shows('#notice', texts.oneEnded)
          await window.shows('.session', DEVICES[name])
          await window.click('#log-out')
          await window.shows('#notice', texts.loggedOut)
          await window.open(`${service.url}/login`)
          await window.hides('#log-out')
        })

        test('go where the application asked for', async email => {
          const target = `${applicationUrl}/orders?page=2#top`
          const asked = `${service.url}/login?return_to=${encodeURIComponent(target)}`
          const isThere = async (there: Window) =>
            eventually(async () => assert.equal(await there.url(), target))
          await window.open(asked)
          await window.logIn(email)
          await isThere(window)
          // With a live session, without the form.
          const other = await browser.openWindow()
          await other.open(asked)
          await isThere(other)
        })

        // Without scripts, all other forms are sent in the same way.
        if (!hasScripts) return

        test('say how long to wait, and log in after it', async email => {
          for (let i = 0; i < 5; i++) await service.login(email, 'wrong')
          await window.logIn(email)
          await window.shows('#notice', en.tooManyAttempts.replace('{wait}', '15 minutes'))
          const countdown = en.countdown.replace('{time}', '1[45]:\\d\\d')
          const [first] = await window.shows('#log-in', RegExp(countdown))
          await window.shows('#log-in', RegExp(`^(?!${first})${countdown}`))
          await window.hides('#log-in:enabled')
          await window.skipWait()
          await window.shows('#notice', en.tryAgainNow)
          await byEmail(service.store).unlock(email, changeAt(service.now()))
          await window.logIn(email)
          await window.shows('#name', 'Kate')
        })

        test('replace a temporary password, then the new one from the account', async email => {
          await makeTemporary(service, email)
          await window.logIn(email)
          await window.shows('#notice', en.temporary)
          await change(window, PASSWORD, PASSWORD)
          await window.shows('#new-password-error', en.newPasswordUnchanged)
          await change(window, PASSWORD, 'first new password')
          await window.shows('#notice', en.passwordChanged)
          await window.click('#change-password')
          await window.shows('h1', en.changePassword)
          assert.equal(await window.evaluate(`document.getElementById('email').value`), email)
          await change(window, 'first new password', 'second new password')
          await window.shows('#notice', en.passwordChanged)
        })

        test('let applications of another site know the user, in other windows without a form', async email => {
          await window.open(server)
          await isForm(window)
          await window.logIn(email)
          await window.shows('p', 'Hello Kate')
          assert.equal(await window.url(), server)
          const other = await browser.openWindow()
          for (const address of [page, server]) {
            await other.open(address)
            await other.shows('p', 'Hello Kate')
            assert.equal(await other.url(), address)
            const readable = await other.evaluate('[document.cookie, document.referrer]')
            assert.deepEqual(readable, ['', ''])
          }
          await window.reload()
          await window.shows('p', 'Hello Kate')
        })

        test('are not cut off on a phone with text of twice the size', async email => {
          const narrow = await browser.openWindow()
          await narrow.resize(320, 700)
          // Not every browser makes a window this narrow. Then the text is larger in the same proportion.
          const assertWhole = async () => {
            const size = 'document.documentElement.style.fontSize'
            await narrow.evaluate(`${size} = (200 * innerWidth) / 320 + '%'`)
            const overflow = 'document.documentElement.scrollWidth - document.body.offsetWidth'
            assert.equal(await narrow.evaluate(overflow), 0)
          }
          await narrow.open(`${service.url}/login`)
          await assertWhole()
          await narrow.logIn(email)
          await narrow.shows('.session', /./)
          await assertWhole()
          await narrow.open(`${service.url}/login/password`)
          await assertWhole()
        })

        // The rest is up to the login page and the applications alone.
        if (name !== 'chromium') return

        for (const [application, returnTo] of Object.entries({ page, server: callback })) {
          test(`lead to a ${application} of another site, which does not use a code that its browser did not ask for`, async email => {
            const eve = await newUser('Eve')
            const challenge = hash('sha256', 'a verifier of Eve', 'base64url')
            const query = new URLSearchParams({ return_to: returnTo, challenge })
            const sent = await createVisitor(service).logIn(eve, PASSWORD, `/login?${query}`)
            await window.open(refreshIn(sent) ?? '')
            await isForm(window)
            await window.logIn(email)
            await window.shows('p', 'Hello Kate')
            const { id } = (await service.store.users.findByEmail(eve)) ?? {}
            const lines = service.logged().filter(({ userId }) => userId === id)
            assert.ok(!lines.some(({ event }) => event === 'code.redeemed'))
          })
        }

        test('ask for the password again after a logout at an application of another site', async email => {
          await window.open(page)
          await window.logIn(email)
          await window.shows('p', 'Hello Kate')
          await window.click('button')
          await isForm(window)
          // At the login page the user is still logged in, and must log out there, too.
          const tab = await browser.openWindow()
          await tab.open(page)
          await tab.shows('p', 'Hello Kate')
          await tab.open(`${service.url}/login`)
          await tab.click('#log-out')
          await isForm(tab)
          await tab.open(page)
          await isForm(tab)
          await window.logIn(await newUser('Ann'))
          await window.shows('p', 'Hello Ann')
        })
      })
    }
  }
})
