// The console in Chromium: every state with its accessibility and its pictures, with the keyboard alone, and without the
// script; the three jobs of a help desk, with the number of clicks; and the same in three engines.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { createAuthenticator, SECOND_FACTOR } from '../support/authenticator.ts'
import { startConsole } from '../support/console.ts'
import { own } from '../support/own.ts'
import { eventually } from '../support/postgres-server.ts'
import { PASSWORD } from '../support/service.ts'
import { assertUsable, createVisits, isFocused, says, startChromium } from './browser.ts'
import { addPeople } from './people.ts'
import { BROWSER_NAMES, startBrowser } from './webdriver.ts'

const WIDTHS = [1200, 600, 390, 320]
const PEOPLE = '/console/people'
const TEMPORARY = /^\w{4}(-\w{4}){4}$/
const ENTER = '\uE007'
const NEW_PASSWORD = 'seven green boats at noon'
/** They are hard to show. */
const NAMES = [
  'N'.repeat(100),
  'محمد عبد الرحمن (2)',
  'רחל 12 לוי',
  `<b>Kate</b> & "<script>alert(1)</script>'`,
]

type Console = Awaited<ReturnType<typeof startConsole>>

let users = 0

async function newUser(service: Console, name = 'Kate') {
  const email = `kate${++users}@example.net`
  return { email, id: await service.addUser(email, { name }) }
}

/** From 5 clients, so that the email waits. */
async function makeWait(service: Console, email: string) {
  for (let i = 0; i < 21; i++)
    await service.login(email, 'wrong', `127.8.0.${1 + Math.floor(i / 5)}`)
}

const verdict = (page: Page, text: string | RegExp) =>
  page.locator('#verdict').filter({ hasText: text }).waitFor()
const button = (page: Page, name: string) => page.getByRole('button', { name })
const link = (page: Page, name: string) => page.getByRole('link', { name })
const give = (page: Page) => button(page, 'Give a temporary password')
const names = (page: Page) => page.locator('td strong').allTextContents()

async function find(page: Page, typed: string) {
  await page.fill('#search', typed)
  await page.press('#search', 'Enter')
}

describe('the console in Chromium', async () => {
  const browser = await own(startChromium())
  const service = await own(startConsole('sqlite', { THROTTLE_CLIENT_FAILURES: '1000' }))
  const ids = await addPeople(service, { after })
  const [helpdesk, admin] = [await enter('dana.reyes'), await enter('sam.ito')]
  const test = createVisits(browser, { ...service, url: service.adminUrl })
  const pathOf = (name: string) => `${PEOPLE}/${ids[name]}`

  /** The profile of a browser in which this person has logged in with two steps. */
  async function enter(name: string) {
    const email = `${name}@example.com`
    const app = createAuthenticator(service.now)
    const body = { email, password: PASSWORD, secret: app.secret, newOtp: app.code() }
    assert.equal((await service.call({ path: SECOND_FACTOR, body })).status, 200)
    const visitor = service.visitor()
    await visitor.post('/login', { email, password: PASSWORD, otp: app.code(1) })
    const given = { domain: '127.0.0.1', path: '/', expires: -1, secure: true, httpOnly: true }
    const cookies = [...visitor.cookies].map(([key, value]) => ({
      ...{ ...given, name: key, value, sameSite: 'Strict' as const },
    }))
    return { storageState: { cookies, origins: [] } }
  }

  const usable = (page: Page, name: string) => assertUsable(page, WIDTHS, `console-${name}`)

  test('the list shows everybody, also with names that are hard to show', {
    path: PEOPLE,
    context: admin,
  }, async ({ page }) => {
    await isFocused(page, 'search')
    assert.equal(await page.title(), 'People · Login Service')
    assert.equal((await names(page))[0], 'Adaeze Nwosu')
    await usable(page, 'people')
    for (const name of NAMES) await newUser(service, name)
    await find(page, '@example.net')
    await page.getByText(/^\d people,/).waitFor()
    assert.deepEqual((await names(page)).slice(0, NAMES.length), NAMES)
    await usable(page, 'people-names')
    await find(page, 'nothing')
    await page.getByRole('heading', { name: 'There are no such people' }).waitFor()
    await find(page, 'unknown@example.com')
    await page.getByText('There is no person with the email unknown@example.com').waitFor()
    await usable(page, 'people-unknown')
    await link(page, 'Add this person').click()
    await isFocused(page, 'addUser-name')
    assert.equal(await page.inputValue('#addUser-email'), 'unknown@example.com')
  })

  test('a link leads over the login to its page; the page says that production demands two steps', {
    path: pathOf('priya.nair'),
    expected: [401],
  }, async ({ page, fill }) => {
    const { email } = await service.newPerson('help desk')
    await isFocused(page, 'email')
    await usable(page, 'login')
    await fill(email, 'not the password')
    await page.press('#password', 'Enter')
    await isFocused(page, 'notice')
    await page.fill('#password', PASSWORD)
    await page.press('#password', 'Enter')
    await verdict(page, 'can only set a new password')
    await page.getByText('Production demands two-step login here.').waitFor()
    await usable(page, 'without-factor')
    await button(page, 'Log out').click()
    await says(page, 'You are logged out.')
    await page.goBack()
    await page.reload()
    await isFocused(page, 'email')
  })

  test('the back button leads through the pages of the list, and keeps what was looked for', {
    path: PEOPLE,
    context: helpdesk,
  }, async ({ page }) => {
    for (let i = 100; i < 160; i++) {
      await service.addUser(`page${i}@example.org`, { name: `Person ${i}` })
    }
    const isPage = (first: string) => page.locator('tbody tr').first().getByText(first).waitFor()
    await find(page, '@example.org')
    await isPage('Person 100')
    for (const first of ['Person 125', 'Person 150']) {
      await link(page, 'Next page').click()
      await isPage(first)
      assert.equal(await page.inputValue('#search'), '@example.org')
    }
    assert.equal(await link(page, 'Next page').count(), 0)
    await link(page, 'Person 151').click()
    await verdict(page, 'can log in.')
    for (const first of ['Person 150', 'Person 125', 'Person 100']) {
      await page.goBack()
      await isPage(first)
    }
    await page.goForward()
    await isPage('Person 125')
  })

  test('a person that waits is unlocked', {
    path: pathOf('miriam.okonkwo'),
    context: admin,
  }, async ({ page, picture }) => {
    await verdict(
      page,
      'miriam.okonkwo@example.com must wait until 14:32: 20 failures in 15 minutes.',
    )
    await picture('console')
    await usable(page, 'waits')
    await button(page, 'Unlock').click()
    await says(page, 'Unlocked.')
    await isFocused(page, 'notice')
    await verdict(page, 'can log in.')
    assert.equal(await button(page, 'Unlock').count(), 0)
    await usable(page, 'unlocked')
  })

  test('a person that can log in has sessions, which are ended, and an address that is checked', {
    path: pathOf('adaeze.nwosu'),
    context: helpdesk,
    expected: [400],
  }, async ({ page }) => {
    await verdict(page, 'can log in.')
    await usable(page, 'fine')
    assert.equal(await page.locator('.session').count(), 3)
    await button(page, 'End: Chrome on Windows').click()
    await says(page, 'The session has ended.')
    await button(page, 'End all 2').click()
    await says(page, 'All sessions have ended.')
    await page.getByText('Not logged in.').waitFor()
    await page.fill('#client', '127.0.0.x')
    await page.press('#client', 'Enter')
    await isFocused(page, 'notice')
    assert.equal(await page.inputValue('#client'), '127.0.0.x')
    await usable(page, 'address-refused')
    await page.fill('#client', '127.0.0.9')
    await button(page, 'Check').click()
    await verdict(page, 'From 127.0.0.9, adaeze.nwosu@example.com can log in.')
  })

  test('what only an administrator may do is not offered, and refused', {
    path: pathOf('oliver.brandt'),
    context: helpdesk,
    expected: [403],
  }, async ({ page }) => {
    await verdict(page, 'locked by an administrator until 4 Feb, 09:00.')
    await page.getByText('Unlock: Only administrators may do this to this person.').waitFor()
    assert.equal(await page.locator('main form').count(), 2)
    await usable(page, 'locked')
    await page.goto(`${service.adminUrl}${pathOf('oliver.brandt')}/delete`)
    await page.getByRole('heading', { name: 'Not allowed' }).waitFor()
    await usable(page, 'not-allowed')
    await page.goto(`${service.adminUrl}${pathOf('sam.ito')}`)
    await page.getByText('Only administrators may change a person with this role.').waitFor()
  })

  test('a user without a role of the console is told so', {
    path: PEOPLE,
    expected: [403],
  }, async ({ page, fill }) => {
    const { email } = await newUser(service, NAMES[0])
    await fill(email)
    await page.click('#log-in')
    await page.getByRole('heading', { name: 'Your role does not allow this' }).waitFor()
    assert.equal(await page.getByRole('navigation').count(), 0)
    await usable(page, 'no-role')
  })

  test('a temporary password is shown once, and copied', {
    path: PEOPLE,
    context: { ...helpdesk, permissions: ['clipboard-read', 'clipboard-write'] },
    expected: [409],
  }, async ({ page }) => {
    const { email, id } = await newUser(service, NAMES[0])
    // The clock stands still: the change must come after it.
    service.advance(1)
    await page.goto(`${service.adminUrl}${PEOPLE}/${id}`)
    await give(page).click()
    await page.locator('h1:focus').filter({ hasText: 'Temporary password' }).waitFor()
    const password = await page.innerText('#secret')
    assert.match(password, TEMPORARY)
    await button(page, 'Copy').click()
    await button(page, 'Copied').waitFor()
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), password)
    await usable(page, 'temporary')
    await page.reload()
    await says(page, /^Nothing was done: the person was changed/)
    await isFocused(page, 'notice')
    assert.equal(await page.locator('#secret').count(), 0)
    await usable(page, 'changed-meanwhile')
    await page.goBack()
    await page.locator('h1').filter({ hasText: 'NNN' }).waitFor()
    assert.equal(await page.locator('#secret').count(), 0)
    assert.equal((await service.login(email, password)).json.error.code, 'PASSWORD_CHANGE_REQUIRED')
  })

  test('a person is added, changed and deleted; a refusal keeps what was typed', {
    path: PEOPLE,
    context: admin,
    expected: [400, 409],
  }, async ({ page }) => {
    await link(page, 'Add a person').click()
    await isFocused(page, 'addUser-email')
    await usable(page, 'add')
    await page.fill('#addUser-email', 'ann.lee@example.com')
    await page.fill('#addUser-name', 'Zoë')
    await page.press('#addUser-name', 'Enter')
    await says(page, 'There is already a user ann.lee@example.com.')
    await isFocused(page, 'notice')
    assert.equal(await page.inputValue('#addUser-name'), 'Zoë')
    await usable(page, 'add-refused')
    await page.fill('#addUser-email', 'zoe@example.com')
    await button(page, 'Add').click()
    await page.locator('#secret').waitFor()
    await link(page, 'Done').click()

    await page.fill('[action$="/details"] [name=name]', NAMES[3] ?? '')
    await page.press('[action$="/details"] [name=name]', 'Enter')
    await says(page, 'The details are changed.')
    await isFocused(page, 'notice')
    await usable(page, 'markup')
    await page.fill('[action$="/details"] [name=email]', 'zoe')
    await button(page, 'Save').click()
    await isFocused(page, 'notice')
    assert.equal(
      await page.getAttribute('[action$="/details"] [name=email]', 'aria-invalid'),
      'true',
    )
    assert.equal(await page.inputValue('[action$="/details"] [name=email]'), 'zoe')

    await link(page, 'Delete…').click()
    await page.locator('h1:focus').filter({ hasText: 'for good?' }).waitFor()
    await usable(page, 'delete')
    await page.fill('#email', 'zoe')
    await page.press('#email', 'Enter')
    await isFocused(page, 'notice')
    await usable(page, 'delete-refused')
    await page.fill('#email', 'zoe@example.com')
    await button(page, 'Delete for good').click()
    await says(page, 'The person is deleted.')
    await isFocused(page, 'notice')
  })

  test('the history tells what was changed, when, and by which person', {
    path: '/console/history',
    context: admin,
    expected: [400],
  }, async ({ page }) => {
    await page.locator('tbody tr').first().waitFor()
    await usable(page, 'history')
    await page.fill('#target', 'miriam.okonkwo@example.com')
    await page.selectOption('#since', { label: 'Any time' })
    await page.press('#target', 'Enter')
    const rows = page.locator('tbody tr')
    await rows
      .filter({ hasText: 'role user → editor' })
      .filter({ hasText: 'token back-office' })
      .waitFor()
    await rows
      .filter({ hasText: 'Activated' })
      .filter({ hasText: 'dana.reyes@example.com' })
      .waitFor()
    await page.goto(`${service.adminUrl}/console/history?since=x`)
    await isFocused(page, 'notice')
    await usable(page, 'history-refused')
  })

  test('the keyboard is enough, in the order of the page', {
    path: PEOPLE,
    context: helpdesk,
  }, async ({ page }) => {
    const { email } = await newUser(service, 'Kay Board')
    await makeWait(service, email)
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key)
    }
    const focused = () =>
      page.evaluate<string>(
        'const it = document.activeElement; (it.ariaLabel ?? it.innerText ?? "").trim() || it.id',
      )
    await isFocused(page, 'search')
    await page.keyboard.type(email)
    await press('Enter')
    await verdict(page, 'must wait')
    await press('Tab')
    assert.equal(await focused(), 'Skip to the content')
    const header = []
    for (let i = 0; i < 4; i++) {
      await press('Tab')
      header.push(await focused())
    }
    assert.deepEqual(header, ['Login Service', 'People', 'History', 'Log out'])
    for (let i = 0; i < 4; i++) await press('Shift+Tab')
    await press('Enter')
    await isFocused(page, 'main')
    const content = []
    for (let i = 0; i < 5; i++) {
      await press('Tab')
      content.push(await focused())
      const outline = 'getComputedStyle(document.activeElement).outlineStyle'
      assert.equal(await page.evaluate(outline), 'solid')
    }
    assert.deepEqual(content, ['← All people', 'Temporary password', 'Unlock', 'client', 'Check'])
    await press('Shift+Tab', 'Shift+Tab', 'Enter')
    await says(page, 'Unlocked.')
    await isFocused(page, 'notice')
    // The link to the form, the events, the time that it is valid, and its button.
    await press('Tab', 'Tab', 'Enter', 'Tab', 'Tab')
    assert.equal(await focused(), 'Give a temporary password')
    await press('Enter')
    await page.locator('h1:focus').filter({ hasText: 'Temporary password' }).waitFor()
    await press('Tab', 'Tab', 'Enter')
    await verdict(page, 'can only set a new password')
  })

  test('without the script nothing is missing but the copy button', {
    path: PEOPLE,
    context: { javaScriptEnabled: false },
    expected: [409],
  }, async ({ page, fill }) => {
    const [agent, user] = [await service.newPerson('admin'), await newUser(service, 'Kate Plain')]
    await makeWait(service, user.email)
    await fill(agent.email)
    await page.press('#password', 'Enter')
    await isFocused(page, 'search')
    await find(page, 'Kate Plain')
    await link(page, 'Kate Plain').click()
    await button(page, 'Unlock').click()
    await says(page, 'Unlocked.')
    await isFocused(page, 'notice')
    await give(page).click()
    await page.locator('h1:focus').filter({ hasText: 'Temporary password' }).waitFor()
    assert.match(await page.innerText('#secret'), TEMPORARY)
    assert.equal(await button(page, 'Copy').count(), 0)
    await link(page, 'Done').click()
    await link(page, 'Deactivate…').click()
    await button(page, 'Deactivate').click()
    await says(page, 'Deactivated. All sessions have ended.')
    await button(page, 'Activate').click()
    await says(page, 'Logins are possible again.')
    await link(page, 'All events').click()
    await page.locator('tbody tr').filter({ hasText: 'Deactivated' }).waitFor()
    await page.goBack()
    await link(page, 'Delete…').click()
    await page.fill('#email', user.email)
    await page.press('#email', 'Enter')
    await says(page, 'The person is deleted.')
    await button(page, 'Log out').click()
    await says(page, 'You are logged out.')
  })

  describe('the three jobs begin at the list, and take', () => {
    /** The user sets a new password with the one that was given on the phone. */
    async function setPassword(email: string, password: string) {
      const path = '/api/v1/auth/password'
      const { status, text } = await service.call({
        path,
        body: { email, currentPassword: password, newPassword: NEW_PASSWORD },
      })
      assert.equal(status, 200, text)
    }
    /** Clicks are counted; to type and Enter are none. */
    async function counting(page: Page, work: () => Promise<void>): Promise<number> {
      let clicks = 0
      await page.exposeFunction('countClick', () => clicks++)
      await page.addInitScript(`addEventListener('click', event => {
        if (event.detail > 0) countClick()
      }, true)`)
      await page.reload()
      await work()
      return clicks
    }

    test('two clicks for a request for access: a person is added', {
      path: PEOPLE,
      context: admin,
    }, async ({ page }) => {
      const clicks = await counting(page, async () => {
        await link(page, 'Add a person').click()
        await isFocused(page, 'addUser-email')
        await page.keyboard.type('new.person@example.com')
        await page.keyboard.press('Tab')
        await page.keyboard.type('New Person')
        await button(page, 'Add').click()
        await page.locator('#secret').waitFor()
      })
      assert.equal(clicks, 2)
      await setPassword('new.person@example.com', await page.innerText('#secret'))
    })

    test('one click for a lost password: a temporary one is given', {
      path: PEOPLE,
      context: helpdesk,
    }, async ({ page }) => {
      const { email } = await newUser(service)
      const clicks = await counting(page, async () => {
        await find(page, email)
        await give(page).click()
        await page.locator('#secret').waitFor()
      })
      assert.equal(clicks, 1)
      await setPassword(email, await page.innerText('#secret'))
    })

    test('one click for a locked account: the wait is ended', {
      path: PEOPLE,
      context: helpdesk,
    }, async ({ page }) => {
      const { email } = await newUser(service)
      await makeWait(service, email)
      const clicks = await counting(page, async () => {
        await find(page, email)
        await button(page, 'Unlock').click()
        await says(page, 'Unlocked.')
      })
      assert.equal(clicks, 1)
      assert.equal((await service.login(email, PASSWORD)).status, 200)
    })
  })
})

describe('the console', { concurrency: true }, async () => {
  const service = await own(startConsole('sqlite', { THROTTLE_CLIENT_FAILURES: '1000' }))
  /** A ticket system: localhost is another site than 127.0.0.1. */
  const tickets = createServer(({ url }, response) => {
    response.setHeader('Content-Type', 'text/html')
    response.end(`<a id="ticket" href="${service.adminUrl}${url}">Ticket</a>`)
  })
  await new Promise<void>(resolve => tickets.listen(0, '127.0.0.1', resolve))
  after(() => tickets.close())
  const { port } = tickets.address() as AddressInfo

  for (const name of BROWSER_NAMES) {
    it(`in ${name}: log in, find, unlock, give a password, and come from another site`, async () => {
      const [agent, user] = [
        await service.newPerson('help desk'),
        await newUser(service, `Kate ${name}`),
      ]
      await makeWait(service, user.email)
      const browser = await own(startBrowser(name, 'en-GB'))
      const window = await browser.openWindow()
      const hasFocus = (id: string) =>
        eventually(async () => assert.equal(await window.evaluate('document.activeElement.id'), id))
      await window.open(service.adminUrl)
      await window.shows('#form', /./)
      await window.logIn(agent.email)
      await window.shows('h1', 'People')
      await hasFocus('search')
      await window.type('#search', user.email + ENTER)
      await window.shows('#verdict', /must wait until/)
      await window.click('.verdict button')
      await window.shows('#notice', 'Unlocked.')
      await hasFocus('notice')
      await window.shows('#verdict', `${user.email} can log in.`)
      await window.click('form[action$="/temporary"] button')
      await window.shows('h1', 'Temporary password')
      await window.shows('#secret', TEMPORARY)
      await window.click('section .primary')
      await window.shows('#verdict', /can only set a new password/)
      await window.open(`http://localhost:${port}${PEOPLE}/${user.id}?client=127.0.0.9`)
      await window.click('#ticket')
      await window.shows('h1', `Kate ${name}`)
      assert.match(String(await window.url()), /client=127\.0\.0\.9/)
    })
  }
})
