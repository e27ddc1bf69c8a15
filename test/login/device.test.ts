import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import type { Device } from '../../src/domain/device.ts'
import { wrapMethods } from '../../src/domain/operations.ts'
import { digestOf } from '../../src/system/identifiers.ts'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { createCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import {
  countStatuses,
  createAddresses,
  loggedBy,
  PASSWORD,
  startTestService,
  TEST_COST,
} from '../support/service.ts'
import {
  cookie,
  cookieIn,
  DAY_MS,
  DEVICE_COOKIE,
  MINUTE_MS,
  ownSessions,
  SECOND_MS,
  SESSION_COOKIE,
} from '../support/session-client.ts'

const DEVICE_BUDGET = 5
const EMAIL_BUDGET = 20

for (const engine of ENGINES_BY_RUN) {
  describe(`known devices on ${engine}`, async () => {
    const lookups: unknown[][] = []
    const service = await ownSessions(engine, {}, null, store =>
      wrapMethods(store, (name, operation) => (...values) => {
        if (name === 'devices.find') lookups.push(values)
        return operation(...values)
      }),
    )
    const newClient = createAddresses()

    async function newOwner() {
      const email = await service.newUser()
      const { device, userId } = await service.browserLogin(email)
      return { email, device, userId }
    }

    const attemptWith = (
      email: string,
      device: string,
      password = PASSWORD,
      from = newClient(),
    ) => ({
      headers: { 'Sec-Fetch-Site': 'same-origin', ...cookie(device, DEVICE_COOKIE) },
      body: { email, password },
      from,
    })
    const loginWith = (...attempt: Parameters<typeof attemptWith>) =>
      service.call(attemptWith(...attempt))
    const failWith = (email: string, device: string) =>
      inParallel(DEVICE_BUDGET, () => loginWith(email, device, 'wrong'))

    // The first: commands have the clock of the machine or database, which later tests leave behind.
    test('"users unlock" ends the block of a device', async () => {
      const { email, device } = await newOwner()
      await failWith(email, device)
      assert.equal((await loginWith(email, device)).status, 429)
      const cli = await own(createCli(service.database))
      const { stdout } = await cli.run(['users', 'show', email])
      const verdict = `${email} can log in, except on 1 known device that waits.`
      assert.equal(stdout.split('\n')[0], verdict)
      assert.equal((await cli.run(['users', 'unlock', email])).code, 0)
      assert.equal((await loginWith(email, device)).status, 200)
    })

    test('an account has at most 100 devices: the next one replaces the least recently used', async () => {
      const { email, userId } = await newOwner()
      const ids = async () =>
        (await service.store.devices.list(userId, service.now())).map(({ id }) => id)
      const [first = ''] = await ids()
      for (let i = 1; i < 100; i++) await service.browserLogin(email, { from: newClient() })
      const full = await ids()
      assert.deepEqual([full.length, full.includes(first)], [100, true])
      await service.browserLogin(email, { from: newClient() })
      const next = await ids()
      assert.deepEqual([next.length, next.includes(first)], [100, false])
    })

    test('a device is known to an instance with other signing keys', async () => {
      const { email, device } = await newOwner()
      await attack(email)
      const SIGNING_KEYS_FILE = join(service.dataDir, 'other-keys.json')
      const other = await own(startTestService(engine, { SIGNING_KEYS_FILE }, service))
      const answer = await other.call(attemptWith(email, device))
      assert.equal(answer.status, 200)
      assert.equal(cookieIn(answer, DEVICE_COOKIE), device)
    })

    /** Makes wrong guesses from many clients until the email is blocked. */
    async function attack(email: string): Promise<void> {
      await inParallel(EMAIL_BUDGET, () => service.login(email, 'guess', newClient()))
      assert.equal((await service.login(email, PASSWORD, newClient())).status, 429)
    }

    const throttleRows = () =>
      service.database.rows(`select * from login_throttle where scope <> 'device' order by key`)

    test('while an email is blocked, its user can log in from a known device and from no other', async () => {
      const { email, device } = await newOwner()
      await attack(email)
      const others = await throttleRows()
      // Also at the address of a client whose refusals are cached.
      const from = newClient()
      for (const typed of [email, email, email.toUpperCase(), ` ${email}`]) {
        assert.equal((await service.login(typed, PASSWORD, from)).status, 429)
      }
      for (let i = 0; i < 3; i++) {
        const answer = await loginWith(email, device, PASSWORD, from)
        assert.equal(answer.status, 200)
        assert.notEqual(cookieIn(answer, SESSION_COOKIE), '')
        assert.equal(cookieIn(answer, DEVICE_COOKIE), device, 'the device keeps its cookie')
      }
      const program = await service.call({
        headers: cookie(device, DEVICE_COOKIE),
        body: { email: ` ${email.toUpperCase()} `, password: PASSWORD },
      })
      assert.equal(program.status, 200, 'a program may send the device cookie too')
      assert.deepEqual(await throttleRows(), others, 'the failures of the attack still count')
      assert.equal((await service.login(email, PASSWORD, from)).status, 429)
      assert.equal((await service.login(`other-${email}`, PASSWORD, from)).status, 401)
    })

    test('a device has its own budget of five failures, and its failures count in no other scope', async () => {
      const { email, device } = await newOwner()
      const second = await service.browserLogin(email)
      const others = await throttleRows()
      assert.deepEqual(countStatuses(await failWith(email, device)), { 401: DEVICE_BUDGET })
      const lines = await loggedBy(service, async () => {
        const refused = await loginWith(email, device)
        assert.deepEqual([refused.status, refused.json.error.retryAfter], [429, 900])
        assert.ok(Number(refused.headers['retry-after']) > 890)
        assert.equal(refused.headers['set-cookie'], undefined)
      })
      // Counts of earlier refusals may be written meanwhile.
      const ownLines = lines.filter(({ count }) => count === undefined)
      assert.deepEqual(
        ownLines.map(({ event, scope }) => [event, scope]),
        [['login.throttled', 'device']],
      )
      assert.deepEqual(await throttleRows(), others)
      const user = await service.store.users.findByEmail(email)
      assert.equal(user?.lockedUntil, null, 'failures of a known device do not lock the user')
      assert.equal((await loginWith(email, second.device)).status, 200)
      assert.equal((await service.login(email, PASSWORD, newClient())).status, 200)
      assert.equal((await loginWith(email, device)).status, 429)
      service.advance(15 * MINUTE_MS + SECOND_MS)
      assert.equal((await loginWith(email, device)).status, 200)
    })

    type Owner = Awaited<ReturnType<typeof newOwner>>
    const UNKNOWN_DEVICES: Record<string, (owner: Owner) => string | Promise<string>> = {
      'of another account': async () => (await newOwner()).device,
      'that was never issued': () => 'A'.repeat(65),
      'of the earlier form, without a tag': ({ device }) => device.slice(0, 43),
      'with the tag of another cookie': async ({ device }) =>
        device.slice(0, 43) + (await newOwner()).device.slice(43),
      'with a changed character': ({ device }) =>
        `${device[0] === 'A' ? 'B' : 'A'}${device.slice(1)}`,
      'with one more character': ({ device }) => `${device}A`,
      'that is empty': () => '',
      'from before the password was changed': async ({ email, device }) => {
        const passwordHash = await bcrypt.hash(PASSWORD, TEST_COST)
        await byEmail(service.store).setPassword(email, passwordHash, changeAt(service.now()))
        return device
      },
      'from before the user was deleted and added again': async ({ email, device }) => {
        await byEmail(service.store).delete(email, changeAt())
        await service.addUser(email)
        return device
      },
    }
    for (const [name, deviceOf] of Object.entries(UNKNOWN_DEVICES)) {
      test(`a device cookie ${name} is not a known device`, async () => {
        const owner = await newOwner()
        const device = await deviceOf(owner)
        const before = await loginWith(owner.email, device)
        assert.equal(before.status, 200)
        const fresh = cookieIn(before, DEVICE_COOKIE)
        assert.match(fresh, /^[\w-]{65}$/, 'the login gets a new device cookie')
        await attack(owner.email)
        assert.equal((await loginWith(owner.email, device)).status, 429)
        assert.equal((await loginWith(owner.email, fresh)).status, 200)
      })
    }

    // Days from the first login.
    const LIVES: Record<string, { day: number; isKnown: boolean; expiresOn: number }[]> = {
      'for 180 days from its last login': [
        { day: 179, isKnown: true, expiresOn: 179 + 180 },
        { day: 179 + 181, isKnown: false, expiresOn: 0 },
      ],
      'for a year from its first login at most': [
        { day: 179, isKnown: true, expiresOn: 179 + 180 },
        { day: 358, isKnown: true, expiresOn: 365 },
        { day: 364, isKnown: true, expiresOn: 365 },
        { day: 366, isKnown: false, expiresOn: 0 },
      ],
    }
    for (const [life, logins] of Object.entries(LIVES)) {
      test(`a device is known ${life}, and its cookie lasts as long`, async () => {
        const { email, device, userId } = await newOwner()
        const [first] = await service.store.devices.list(userId, service.now())
        assert.ok(first)
        for (const { day, isKnown, expiresOn } of logins) {
          const moment = first.createdAt.getTime() + day * DAY_MS
          service.advanceTo(moment)
          const answer = await loginWith(email, device)
          assert.equal(cookieIn(answer, DEVICE_COOKIE) === device, isKnown, `day ${day}`)
          const devices = await service.store.devices.list(userId, service.now())
          const known: Device | undefined = devices.find(({ id }) => id === first.id)
          assert.equal(known !== undefined, isKnown)
          if (!known) continue
          // The login happened within this time after `moment`.
          const withinMs = service.now().getTime() - moment + SECOND_MS
          const leftMs = known.expiresAt.getTime() - moment
          const cookies = String(answer.headers['set-cookie'])
          const maxAge = Number(/__Host-device=.*?Max-Age=(\d+)/.exec(cookies)?.[1])
          for (const ms of [leftMs - (expiresOn - day) * DAY_MS, leftMs - maxAge * SECOND_MS]) {
            assert.ok(0 <= ms && ms <= withinMs, `day ${day}: ${ms} ms, ${cookies}`)
          }
        }
      })
    }

    test('with a device cookie, every email gets the same lookup, and a wrong password the same answer', async () => {
      const { email, device } = await newOwner()
      const { email: another } = await newOwner()
      lookups.length = 0
      const known = await loginWith(email, device, 'wrong')
      await loginWith(another, device, 'wrong')
      const unknown = await loginWith('absent@example.com', device, 'wrong')
      const sent = lookups.map(values => values.filter(value => !(value instanceof Date)))
      assert.deepEqual(sent, Array(3).fill([digestOf(device)]))
      assert.deepEqual([known.status, known.text], [unknown.status, unknown.text])
      assert.deepEqual(Object.keys(known.headers), Object.keys(unknown.headers))
    })
  })
}
