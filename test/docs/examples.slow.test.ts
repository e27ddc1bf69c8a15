// Runs the examples as separate processes, over real TLS; the client on the machine's own Node.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { after, describe, test } from 'node:test'
import { PUBLIC_FAILURES } from '../../src/http/answer/envelope.ts'
import { isUuid } from '../../src/system/identifiers.ts'
import { startAdminService } from '../support/admin-service.ts'
import { createAuthenticator } from '../support/authenticator.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { findMachineNode } from '../support/old-node.ts'
import { eventsOf, inParallel, own, ownFolder } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { PROJECT, until } from '../support/process.ts'
import { PASSWORD, startTestService } from '../support/service.ts'

const EXAMPLES = join(PROJECT, 'examples')
const NODE = findMachineNode()
const NO_ANSWER = 'The login service did not answer'
const SILENT = 'the feed of ended sessions is silent'
const NO_KEYS = 'the keys cannot be loaded'

function start(service: { dataDir: string }, node: string, args: string[], env: object = {}) {
  const trusting = { NODE_EXTRA_CA_CERTS: join(service.dataDir, 'development-cert.pem') }
  const child = spawn(node, args, {
    env: { ...process.env, ...trusting, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  after(() => child.kill())
  return child
}

test('the types of the client and the verifier are those of their code', async () => {
  const folder = await ownFolder('login-types-')
  const compiler = join(PROJECT, 'node_modules/typescript/bin/tsc')
  execFileSync(process.execPath, [compiler, '-p', EXAMPLES, '--outDir', folder])
  for (const name of ['login-client.d.ts', 'verifier.d.ts']) {
    const expected = readFileSync(join(folder, name), 'utf8')
    assert.equal(readFileSync(join(EXAMPLES, name), 'utf8'), expected, 'run "npm run typecheck"')
  }
})

test('the client knows every code that the service answers, and no other', () => {
  const types = readFileSync(join(EXAMPLES, 'login-client.d.ts'), 'utf8')
  const [, union = ''] = /type ServiceCode = (.*);/.exec(types) ?? []
  const codes = Object.keys(PUBLIC_FAILURES).map(code => `'${code}'`)
  assert.deepEqual(union.split(' | '), codes)
})

describe(`the client and the verifier, on ${NODE}`, async () => {
  const service = await own(startTestService('sqlite', { JWT_ISSUER: '' }))
  await service.addUser('kate@example.com')
  await service.addUser('ann@example.com')
  /** Of the last script. */
  let lines = service.logged()
  const count = (event: string) => eventsOf(lines).filter(logged => logged === event).length

  /** Runs a script that can use the lines below; returns the printed values. */
  async function runScript(script: string, env?: object): Promise<unknown[]> {
    const code = `
      import { LoginClient, LoginError } from ${JSON.stringify(join(EXAMPLES, 'login-client.js'))}
      import { createVerifier } from ${JSON.stringify(join(EXAMPLES, 'verifier.js'))}
      const url = ${JSON.stringify(service.url)}
      const issuer = url.replace('127.0.0.1', 'localhost')
      const email = 'kate@example.com', password = ${JSON.stringify(PASSWORD)}
      const client = new LoginClient(url)
      const print = value => process.stdout.write(JSON.stringify(value) + ',')
      const codeOf = promise => promise.then(() => 'none', error => error.code)
      let offsetMs = 0
      const realNow = Date.now
      Date.now = () => realNow() + offsetMs
      // Before it repeats a request, the client waits 1 or 2 seconds, and the verifier 2. Other timers, such as those of fetch, stay as they are.
      const realTimeout = setTimeout
      globalThis.setTimeout = (callback, ms, ...rest) =>
        realTimeout(callback, [1_000, 2_000].includes(ms) ? 20 : ms, ...rest)
      let stored = null
      const storage = { read: async () => stored, write: async token => { stored = token } }
      // Before and after each call; either may throw.
      const realFetch = fetch
      let onCall = path => {}, onAnswer = path => {}
      const calls = []
      globalThis.fetch = async (address, options) => {
        const path = String(address).split('/auth')[1]
        calls.push(path)
        await onCall(path, options)
        const response = await realFetch(address, options)
        await onAnswer(path, options)
        return response
      }
      ${script}`
    const known = service.logged().length
    const child = start(service, NODE, ['--input-type=module', '--eval', code], env)
    const [output, [exitCode]] = await Promise.all([text(child.stdout), once(child, 'exit')])
    assert.equal(exitCode, 0)
    lines = service.logged().slice(known)
    return JSON.parse(`[${output.slice(0, -1)}]`)
  }

  test('the verifier accepts no token before it has read all pages of the feed', async () => {
    const kate = await service.store.users.findByEmail('kate@example.com')
    const filling = { tokensEach: 0, endedAt: service.now() }
    await fillSessions(service.database, kate?.id ?? '', 10_001, service.now(), filling)
    const printed = await runScript(
      `await client.login(email, password)
     const token = await client.accessToken()
     const { id } = await client.session()
     await client.logout()
     let pages = 0, isLost = true
     onAnswer = path => { if (!path && ++pages > 1 && isLost) throw new TypeError('lost') }
     const verifier = createVerifier(issuer)
     const until = async condition => { while (!condition()) await new Promise(resolve => realTimeout(resolve, 20)) }
     await until(() => pages > 2)
     const outcome = () => { try { return verifier.isEnded(id) } catch (error) { return error.message } }
     print(outcome())
     isLost = false
     // It goes on with the second page.
     await until(() => outcome() === true)
     print(await createVerifier(issuer).verify(token))`,
    )
    assert.deepEqual(printed, [SILENT, null])
  })

  test('logs in, refreshes once for ten callers at once, and logs out', async () => {
    const printed = await runScript(
      `print((await client.login(email, password)).email)
       const first = await client.accessToken()
       print(first === await client.accessToken())
       offsetMs = 3_590_000
       const many = await Promise.all(Array.from({ length: 10 }, () => client.accessToken()))
       print(new Set(many).size === 1 && many[0] !== first)
       await client.logout()
       print(client.user)
       print(await codeOf(client.accessToken()))`,
    )
    assert.deepEqual(printed, ['kate@example.com', true, true, null, 'NOT_LOGGED_IN'])
    assert.equal(count('session.refreshed'), 1)
    assert.equal(count('session.ended'), 1)
  })

  test('with the cookie, fails with a name if the cookie is not kept, as a page of another site does', async () => {
    const printed = await runScript(
      `const page = new LoginClient(url, { cookie: true })
       const error = await page.login(email, password).catch(error => error)
       print([error.code, error.message, page.user])
       // Whether the cookie was kept is not known: the login has succeeded.
       onCall = path => { if (path === '/session') throw new TypeError('offline') }
       print((await page.login(email, password)).email)`,
    )
    const [[code, message, user], restored] = printed as [unknown[], string]
    assert.deepEqual([code, user, restored], ['NO_COOKIE', null, 'kate@example.com'])
    assert.match(String(message), /does not send its cookie.*https.*Vite.*tokens/)
  })

  test('changes a password, tells what is wrong with a new one, and repeats no change', async () => {
    await service.addUser('change@example.com')
    const printed = await runScript(
      `const email2 = 'change@example.com', next = 'seven green boats at noon'
      const error = await client.changePassword(email2, password, 'short').catch(error => error)
      print([error.code, error.reason])
      print((await client.changePassword(email2, password, next)).email)
      print(calls.length)
      print((await client.sessions()).length)
      print(await codeOf(new LoginClient(url + '/').login(email2, password)))
      onAnswer = () => { throw new Error('lost') }
      print(await codeOf(client.changePassword(email2, next, password)))
      print(calls.filter(path => path === '/password').length)`,
    )
    assert.deepEqual(printed, [
      ['VALIDATION_ERROR', 'too_short'],
      'change@example.com',
      2,
      1,
      'INVALID_CREDENTIALS',
      'NO_ANSWER',
      3,
    ])
  })

  test('sets up a second factor, logs in with it, removes it, and repeats no change', async () => {
    await service.addUser('app@example.com')
    const app = createAuthenticator(service.now)
    const printed = await runScript(
      `const email2 = 'app@example.com', next = 'seven green boats at noon'
      const change = { secret: '${app.secret}', newOtp: '${app.wrongCode()}' }
      const error = await client.changeSecondFactor(email2, password, change).catch(error => error)
      print([error.code, error.reason])
      change.newOtp = '${app.code()}'
      const [first, second, third, ...others] = await client.changeSecondFactor(email2, password, change)
      print(others.length)
      print((await client.session()).amr)
      print(await codeOf(client.login(email2, password)))
      print((await client.login(email2, password, first)).email)
      print(await codeOf(client.changePassword(email2, password, next)))
      print((await client.changePassword(email2, password, next, second)).email)
      print(await client.changeSecondFactor(email2, next, { secret: null }, third))
      await client.login(email2, next)
      const { amr, lastLogin } = await client.session()
      print([amr, lastLogin.guessesSince])
      onAnswer = () => { throw new Error('lost') }
      calls.length = 0
      print(await codeOf(client.changeSecondFactor(email2, next, { recoveryCodes: true })))
      print(calls.length)`,
    )
    assert.deepEqual(printed, [
      ['VALIDATION_ERROR', 'wrong_code'],
      7,
      ['pwd', 'otp', 'mfa'],
      'INVALID_CREDENTIALS',
      'app@example.com',
      'INVALID_CREDENTIALS',
      'app@example.com',
      null,
      [['pwd'], 0],
      'NO_ANSWER',
      1,
    ])
  })

  test('continues after a restart with a stored token, and not after a logout', async () => {
    const printed = await runScript(
      `await new LoginClient(url, { storage }).login(email, password)
       const restarted = new LoginClient(url, { storage })
       print(restarted.user)
       print((await restarted.restore()).email)
       const again = new LoginClient(url, { storage })
       await again.restore()
       await again.logout()
       print([stored, again.user])
       print(await new LoginClient(url, { storage }).restore())
       // The other client learns it with its next call, and keeps no token of the ended session.
       print(await codeOf(restarted.sessions()))
       print(restarted.user)`,
    )
    assert.deepEqual(printed, [null, 'kate@example.com', [null, null], null, 'INVALID_TOKEN', null])
  })

  test('repeats a refresh whose answer was lost or whose token could not be stored, by the same id; and no login', async () => {
    const printed = await runScript(
      `const keeping = new LoginClient(url, { storage })
       await keeping.login(email, password)
       offsetMs = 3_590_000
       const ids = []
       onCall = (path, { headers }) => { if (path === '/refresh') ids.push(headers['X-Request-ID']) }
       onAnswer = path => { if (ids.length <= 4) throw new TypeError('lost') }
       // The first call gives up after three tries; the second one repeats the same refresh.
       print(await keeping.accessToken().catch(error => [error.code, error.status, error.cause.message, error.message]))
       print(ids.length)
       print(await codeOf(keeping.accessToken()))
       offsetMs *= 2
       const write = storage.write
       storage.write = async () => { storage.write = write; throw new Error('disk full') }
       print(await keeping.accessToken().catch(error => error.message))
       print(await codeOf(keeping.accessToken()))
       print(ids)
       print((await new LoginClient(url, { storage }).restore()).email)
       onCall = () => { throw new TypeError('offline') }
       calls.length = 0
       print(await codeOf(client.login(email, password)))
       print(calls)`,
    )
    const [ids] = printed.splice(5, 1)
    const why = `${NO_ANSWER}: the network, CORS, or a certificate that is not trusted`
    assert.deepEqual(printed, [
      ...[['NO_ANSWER', 0, 'lost', why], 3, 'none', 'disk full', 'none', 'kate@example.com'],
      ...['NO_ANSWER', ['/login']],
    ])
    assert.ok(Array.isArray(ids) && isUuid(ids[0]) && isUuid(ids[5]) && ids[0] !== ids[5])
    assert.deepEqual(ids, [...Array(5).fill(ids[0]), ids[5], ids[5]])
    assert.deepEqual(
      lines.filter(({ event }) => event === 'session.refreshed').map(line => line.repeated),
      [undefined, true, true, true, true, undefined, true, undefined],
    )
    assert.equal(count('session.reuse_detected'), 0)
  })

  test('names the certificate that Node does not trust, at once, and the port that does not listen', async () => {
    const printed = await runScript(
      `stored = 'x'
       const keeping = new LoginClient(url, { storage })
       print(await keeping.restore().catch(error => [error.code, error.message]))
       print([calls, stored])
       const nowhere = new LoginClient('https://127.0.0.1:${await freePort()}')
       print(await nowhere.login(email, password).catch(error => error.message))`,
      { NODE_EXTRA_CA_CERTS: '' },
    )
    assert.deepEqual(printed, [
      ['NO_ANSWER', `${NO_ANSWER}: DEPTH_ZERO_SELF_SIGNED_CERT`],
      [['/refresh'], 'x'],
      `${NO_ANSWER}: ECONNREFUSED`,
    ])
  })

  test('a logout during a refresh is not undone by it, nor a login by another user', async () => {
    const printed = await runScript(
      `for (const next of [() => client.logout(), () => client.login('ann@example.com', password)]) {
         await client.login(email, password)
         offsetMs += 3_590_000
         let answer
         const answered = new Promise(resolve => { answer = resolve })
         onAnswer = async path => { if (path === '/refresh') await answered }
         const refreshing = client.accessToken()
         const done = next()
         setTimeout(answer, 50)
         await Promise.all([refreshing, done])
         print(client.user && client.user.email)
         print(await codeOf(client.accessToken()))
       }`,
    )
    assert.deepEqual(printed, [null, 'NOT_LOGGED_IN', 'ann@example.com', 'none'])
  })

  test('shows its session with the login before it, lists all pages of sessions, ends one and then all', async () => {
    await service.addUser('many@example.com')
    const many = await service.store.users.findByEmail('many@example.com')
    await fillSessions(service.database, many?.id ?? '', 95, service.now())
    const printed = await runScript(
      `// The service sends at most 100 at a time; here, ten.
       const fetchAll = fetch
       globalThis.fetch = (address, options) =>
         fetchAll(String(address).includes('/sessions')
           ? address + (address.includes('?') ? '&' : '?') + 'limit=10' : address, options)
       const many = 'many@example.com'
       const others = []
       for (let i = 0; i < 3; i++) {
         others.push(new LoginClient(url))
         await others[i].login(many, password)
       }
       await codeOf(client.login(many, 'wrong'))
       await client.login(many, password)
       const { id, current, lastLogin } = await client.session()
       print([current, lastLogin.failuresSince, lastLogin.ip])
       const sessions = await client.sessions()
       print([sessions.length, new Set(sessions.map(session => session.id)).size])
       print(sessions.filter(session => session.current).map(session => session.id === id))
       const { id: other } = await others[0].session()
       await client.endSession(other)
       // Once more, as after a lost answer.
       await client.endSession(other)
       print((await client.sessions()).length)
       await client.logoutEverywhere()
       offsetMs = 3_590_000
       print(await Promise.all(others.map(other => codeOf(other.accessToken()))))
       print(client.user)`,
    )
    const ended = ['INVALID_TOKEN', 'INVALID_TOKEN', 'INVALID_TOKEN']
    assert.deepEqual(printed, [[true, 1, '127.0.0.1'], [99, 99], [true], 98, ended, null])
  })

  test('throws an error with the status, the code and the seconds to wait', async () => {
    const printed = await runScript(
      `for (let i = 0; i < 6; i++) {
         await client.login('unknown@example.com', 'wrong').catch(error => {
           print([error instanceof LoginError, error.status, error.code, error.retryAfterSeconds])
         })
       }`,
    )
    assert.deepEqual(printed.at(0), [true, 401, 'INVALID_CREDENTIALS', null])
    assert.deepEqual(printed.at(-1), [true, 429, 'TOO_MANY_ATTEMPTS', 900])
  })

  test('while the feed is silent the verifier accepts tokens for a minute, then none', async () => {
    const printed = await runScript(
      `let aheadMs = 0
     const realPerformance = performance.now.bind(performance)
     performance.now = () => realPerformance() + aheadMs
     const outcome = (verifier, token) =>
       verifier.verify(token).then(claims => claims ? 'valid' : 'invalid', error => error.message)
     await client.login(email, password)
     const token = await client.accessToken()
     const verifier = createVerifier(issuer)
     print(await outcome(verifier, token))
     // Neither the feed nor the keys.
     onCall = path => { if (!path) throw new TypeError('offline') }
     const late = createVerifier(issuer)
     print(await late.verify(token).catch(error => error.message))
     await client.logout()
     aheadMs = 30_000
     print(await outcome(verifier, token))
     aheadMs = 61_000
     print(await outcome(verifier, token))
     onCall = () => {}
     while (await outcome(verifier, token) !== 'invalid') await new Promise(resolve => realTimeout(resolve, 20))
     print('invalid')`,
    )
    assert.deepEqual(printed, ['valid', NO_KEYS, 'valid', SILENT, 'invalid'])
  })

  test('the resource server accepts an access token until its session ends, and no other token', async () => {
    const server = start(service, process.execPath, [join(EXAMPLES, 'resource-server.ts')], {
      ISSUER: service.url.replace('127.0.0.1', 'localhost'),
      LOGIN_URL: service.url,
      PORT: '0',
    })
    const [line] = await once(createInterface({ input: server.stdout }), 'line')
    const url = `${String(line).replace('listening on ', '')}/me`
    const logIn = async () => (await service.login('kate@example.com', PASSWORD)).json.data
    const [data, second, third] = [await logIn(), await logIn(), await logIn()]
    const ask = (token: string) => fetch(url, { headers: { Authorization: `Bearer ${token}` } })

    const accepted = await ask(data.accessToken)
    assert.equal(accepted.status, 200)
    const { id, email, role } = data.user
    assert.deepEqual(await accepted.json(), { id, email, role })
    // In the middle of the signature: the last character has bits that do not count.
    const changed = data.accessToken.replace(/.(?=.{20}$)/, it => (it === 'A' ? 'B' : 'A'))
    for (const token of [data.refreshToken, changed, 'x', '']) {
      assert.equal((await ask(token)).status, 401)
    }
    const logOut = async ({ accessToken, refreshToken }: typeof data) => {
      await service.call({ path: '/api/v1/auth/logout', body: { refreshToken } })
      await until(async () => (await ask(accessToken)).status === 401)
    }
    await logOut(data)
    // The service does not know the verifier's cursor any more.
    service.advance(-600_000)
    await logOut(second)
    assert.equal((await ask(third.accessToken)).status, 200)
  })
})

const CHOSEN = 'a chosen password of words'

describe('the programs that register users and reset passwords', async () => {
  const service = await own(startAdminService('sqlite'))

  /** When it gets a signal, 30 minutes pass for the program. */
  const CLOCK = `data:text/javascript,process.on('SIGUSR2', () => {
    const real = Date.now; Date.now = () => real() + 30 * 60_000; console.log('{}') })`

  async function startProgram(role: 'create' | 'write') {
    const name = role === 'create' ? 'registration' : 'reset'
    const lines = readFileSync(join(EXAMPLES, `${name}.ts`), 'utf8').split('\n')
    assert.ok(lines.length <= 121)
    const PORT = String(await freePort())
    const ADMIN_TOKEN = await service.addToken(`${name}-example`, role)
    const env = { PORT, ADMIN_TOKEN, ADMIN_URL: service.adminUrl }
    const args = ['--import', CLOCK, join(EXAMPLES, `${name}.ts`)]
    const child = start(service, process.execPath, args, env)
    const printed: string[] = []
    createInterface(child.stdout).on('line', line => printed.push(line))
    await until(async () => printed.length > 0)
    const url = `http://localhost:${PORT}/${role === 'create' ? 'register' : 'reset'}`
    const send = async (path: string, form?: Record<string, string>) => {
      const body = form && { method: 'POST', body: new URLSearchParams(form) }
      const answer = await fetch(url + path, body)
      return { status: answer.status, html: await answer.text() }
    }
    const mails = () =>
      printed.flatMap(line => (line.startsWith('{"to"') ? [JSON.parse(line)] : []))
    const confirm = (token = '', password = CHOSEN) =>
      send('/confirm', { token, name: 'New', password, role: 'admin' })
    /** Asks for a link, and returns its token. */
    async function tokenFor(email: string): Promise<string> {
      const known = mails().length
      await send('', { email })
      await until(async () => mails().length > known)
      const { to, message } = mails()[known]
      assert.equal(to, email)
      return /token=([\w-]{43})$/.exec(message)?.[1] ?? ''
    }
    return {
      ...{ send, mails, confirm, tokenFor },
      /** It changes nothing before, and takes no weak password. The other email gets a link too late. */
      async assertUsedOnce(token: string, email: string, other: string) {
        const before = await service.store.users.findByEmail(email)
        assert.equal((await send(`/confirm?token=${token}`)).status, 200)
        assert.equal((await confirm(token, 'password')).status, 400)
        assert.deepEqual(await service.store.users.findByEmail(email), before)
        const answers = await inParallel(3, () => confirm(token))
        assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 410, 410])
        const { status, json } = await service.login(email, CHOSEN)
        assert.deepEqual([status, json.data.user.role], [200, 'user'])
        const late = await tokenFor(other)
        const known = printed.length
        child.kill('SIGUSR2')
        await until(async () => printed.length > known)
        for (const ended of [late, 'x']) assert.equal((await confirm(ended)).status, 410)
      },
    }
  }

  test('a user is registered once the address is confirmed, once per link, and an account stays as it is', async () => {
    const { send, mails, confirm, tokenFor, assertUsedOnce } = await startProgram('create')
    const [email, taken, other] = ['new@example.com', await service.newUser(), 'other@example.com']
    const tokens = [await tokenFor(email), await tokenFor(taken)] as const
    assert.deepEqual(await send('', { email: other }), await send('', { email: taken }))
    assert.deepEqual(
      mails().map(({ to }) => to),
      [email, taken, other],
    )
    assert.equal((await send('', { email: 'a@example.com,b@example.com' })).status, 400)
    assert.match((await confirm(tokens[1])).html, /You have an account/)
    assert.equal((await service.login(taken, PASSWORD)).status, 200)
    assert.equal(await service.store.users.findByEmail(email), null)
    await assertUsedOnce(tokens[0], email, 'late@example.com')
  })

  test('a password is reset once per link, and nothing tells whether an address has an account', async () => {
    const { send, mails, tokenFor, assertUsedOnce } = await startProgram('write')
    const [email, other] = [await service.newUser(), await service.newUser()]
    const unknown = await send('', { email: 'unknown@example.com' })
    const token = await tokenFor(email)
    assert.deepEqual(await send('', { email }), unknown)
    await assertUsedOnce(token, email, other)
    assert.equal(mails().length, 2)
    assert.equal((await service.login(other, PASSWORD)).status, 200)
  })
})
