// What administrators see and do of second factors: the reset, the list of an auditor, and why a code is not accepted.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { AuditEvent } from '../../src/domain/audit.ts'
import { startAdminService } from '../support/admin-service.ts'
import { newUserWithApp, STEP_MS } from '../support/authenticator.ts'
import { createCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { scrape } from '../support/metrics.ts'
import { own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { until } from '../support/process.ts'
import { createAddresses, LOGIN, loggedBy, PASSWORD } from '../support/service.ts'
import { cookie, cookieIn, DEVICE_COOKIE } from '../support/session-client.ts'

const TEMPORARY = /^[\da-z]{4}(-[\da-z]{4}){4}$/
const BROWSER = { 'Sec-Fetch-Site': 'same-origin' }
const COUNTED =
  'database_operation_seconds_count{operation="secondFactors.countUsers",result="done"}'

type Reset = { isDone: boolean; message: string; removed?: number; password?: string }

for (const engine of ENGINES_BY_RUN) {
  describe(`administrators and second factors on ${engine}`, async () => {
    const opsPort = await freePort()
    const roles = { SECOND_FACTOR_ROLES: 'editor' }
    const service = await own(startAdminService(engine, { ...roles, OPS_PORT: String(opsPort) }))
    const cli = await own(createCli(service.database))
    const newAddress = createAddresses()
    const newUser = (email: string | null = null) => newUserWithApp(service, newAddress, email)
    const run = (...args: string[]) => cli.run(args, '', roles)

    const login = (email: string, otp?: string, password = PASSWORD, headers = {}) =>
      service.call({ body: { email, password, otp }, from: newAddress(), headers })
    const codeOf = async (...of: Parameters<typeof login>) => (await login(...of)).json.error.code
    const guess = async (
      email: string,
      app: { wrongCode: (i: number) => string },
      count: number,
    ) => {
      for (let i = 0; i < count; i++)
        assert.equal((await login(email, app.wrongCode(i))).status, 401)
    }
    const show = async (email: string) => (await run('users', 'show', email)).stdout
    const shownBy = async (email: string) => {
      const { text } = await service.admin('GET', `/users/${email}`)
      const { throttle: _, ...shown } = JSON.parse(text).data
      // The clock of a command is not that of the service, which the test moves.
      const { throttle: __, ...printed } = JSON.parse(
        (await run('users', 'show', email, '--json')).stdout,
      )
      assert.deepEqual(printed, shown)
      return shown
    }
    const eventsOf = async (email: string): Promise<AuditEvent[]> =>
      JSON.parse((await run('audit', 'list', '--target', email, '--json')).stdout)
    const rowsOf = async (table: string, email: string) =>
      service.database.rows(
        `select * from ${table} where user_id = (select id from users where email = '${email}')`,
      )

    const ways: [name: string, reset: (email: string, generate?: boolean) => Promise<Reset>][] = [
      [
        'the command',
        async (email, generate) => {
          const args = ['users', 'reset-second-factor', email, '--json']
          const { code, stdout, stderr } = await run(...args, ...(generate ? ['--generate'] : []))
          return { isDone: code === 0, message: stderr, ...(code === 0 && JSON.parse(stdout)) }
        },
      ],
      [
        'the admin API',
        async (email, generate) => {
          const query = generate ? '?generate=true' : ''
          const path = `/users/${email}/second-factor${query}`
          const { status, json } = await service.admin('DELETE', path)
          if (status === 200) return { isDone: true, message: '', ...json.data }
          const { code, fields, message } = json.error
          assert.deepEqual([status, code, fields], [409, 'PASSWORD_KNOWN', ['generate']])
          return { isDone: false, message }
        },
      ],
    ]
    for (const [way, reset] of ways) {
      test(`${way} removes factors and recovery codes and ends sessions, once`, async () => {
        const { email, app, answer, recoveryCodes } = await newUser()
        assert.equal((await login(email, recoveryCodes[0])).status, 200)
        await guess(email, app, 2)
        const done = await reset(email)
        assert.deepEqual([done.isDone, done.removed, done.password], [true, 1, undefined])
        for (const table of ['second_factors', 'recovery_codes']) {
          assert.deepEqual(await rowsOf(table, email), [])
        }
        const { refreshToken } = answer.json.data
        const path = LOGIN.replace('login', 'refresh')
        assert.equal((await service.call({ path, body: { refreshToken } })).status, 401)
        assert.equal((await login(email)).status, 200)

        const again = await reset(email)
        assert.deepEqual([again.isDone, again.removed], [true, 0])
        const events = await eventsOf(email)
        const [event] = events.filter(({ action }) => action === 'second_factor.reset')
        assert.deepEqual(
          [event?.before, event?.after],
          [
            { factors: 'totp', recoveryCodesLeft: 9, failedSecondSteps: 2 },
            { factors: null, recoveryCodesLeft: 0, failedSecondSteps: 0 },
          ],
        )
        assert.equal(events.length, 2, 'the user was added, and reset once')
      })

      test(`${way} gives a temporary password too, without which it refuses from the third guess on`, async () => {
        const { email, app } = await newUser()
        const device = cookie(
          cookieIn(await login(email, app.code(), PASSWORD, BROWSER), DEVICE_COOKIE),
          DEVICE_COOKIE,
        )
        await guess(email, app, 3)
        const refused = await reset(email)
        assert.equal(refused.isDone, false)
        assert.match(refused.message, /wrong code 3 times, so somebody may know .* add generate: /)
        assert.equal((await rowsOf('second_factors', email)).length, 1)

        const { isDone, password = '' } = await reset(email, true)
        assert.ok(isDone)
        assert.match(password, TEMPORARY)
        assert.equal(await codeOf(email), 'INVALID_CREDENTIALS')
        // The thief may have made this device known.
        assert.equal(
          (await service.store.devices.list((await shownBy(email)).id, service.now())).length,
          0,
        )
        assert.equal(await codeOf(email, undefined, password, device), 'PASSWORD_CHANGE_REQUIRED')
        const { failedSecondSteps, verdict } = await shownBy(email)
        assert.deepEqual([failedSecondSteps, verdict.kind], [0, 'must-change-password'])
        const event = (await eventsOf(email)).find(({ action }) => action === 'second_factor.reset')
        assert.ok(event?.after?.temporaryUntil)
        assert.ok(!JSON.stringify(event).includes(password))
        assert.ok(!service.logText().includes(password))

        const another = await reset(email, true)
        assert.deepEqual([another.removed, another.password === password], [0, false])
      })
    }

    test('a reset is one event of the log, and one line of text', async () => {
      const { email } = await newUser()
      const { stderr } = await run('users', 'reset-second-factor', email)
      const { event, removed, msg } = JSON.parse(stderr)
      const said = `Removed the second factor of ${email} and ended all sessions. The password alone is enough now.`
      assert.deepEqual([event, removed, msg], ['admin.second_factor_reset', 1, said])
      const again = await run('users', 'reset-second-factor', email)
      assert.equal(again.stderr, `${email} has no second factor: nothing was changed.\n`)
      const lines = await loggedBy(service, () =>
        service.admin('DELETE', `/users/${email}/second-factor`),
      )
      assert.deepEqual(
        lines.map(({ event, method, route, target }) => [event, method, route, target]),
        [['admin.request', 'DELETE', '/admin/v1/users/:user/second-factor', email]],
      )
      for (const wrong of [
        'generate=1',
        'generate=',
        'generate=TRUE',
        'generate=true&generate=true',
      ]) {
        const { status } = await service.admin('DELETE', `/users/${email}/second-factor?${wrong}`)
        assert.equal(status, 400, wrong)
      }
    })

    test('a user is shown with its factor and the recovery codes that are left', async () => {
      const { email, app, recoveryCodes } = await newUser()
      const lineOf = async (of: string) => /^second factor +(.*)$/m.exec(await show(of))?.[1]
      const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g
      const masked = async () => (await lineOf(email))?.replace(TIME, 'T')
      assert.equal(await masked(), 'on since T, not used yet, 10 recovery codes left')
      for (const code of [app.code(), ...recoveryCodes.slice(1)]) {
        assert.equal((await login(email, code)).status, 200)
      }
      assert.equal(await masked(), 'on since T, last used T, 1 recovery code left')
      const { factors, recoveryCodesLeft, isSecondFactorDemanded } = await shownBy(email)
      const [{ kind, name, lastUsedAt }] = factors
      assert.deepEqual([kind, name, recoveryCodesLeft], ['totp', null, 1])
      assert.ok(lastUsedAt)
      assert.equal(isSecondFactorDemanded, false)

      const other = await service.newUser()
      assert.equal(await lineOf(other), 'off')
      await run('users', 'set', other, '--role', 'editor')
      assert.equal(await lineOf(other), 'off, although the role demands one')
      const said = new RegExp(
        `^${other} can only set up a second factor: the role demands one\\.\n`,
      )
      assert.match(await show(other), said)
      assert.equal((await shownBy(other)).verdict.kind, 'must-set-up-second-factor')
      assert.equal(await codeOf(other), 'SECOND_FACTOR_REQUIRED')
    })

    test('a user is shown with wrong codes that came with the right password, and what they lead to', async () => {
      const { email, app } = await newUser()
      const storyOf = async () => (await show(email)).split('\nemail ')[0]?.replaceAll(email, 'It')
      const came = (times: number) =>
        `The right password came with a wrong code ${times} times: somebody may know the password ("users set-password --generate" replaces it).`
      const next = () => {
        service.advance(STEP_MS)
        return app.code()
      }
      await guess(email, app, 2)
      assert.equal(await storyOf(), 'It can log in.')
      await guess(email, app, 1)
      assert.equal(await storyOf(), `It can log in.\n${came(3)}`)
      await guess(email, app, 7)
      const none = 'a known device is needed, and there is none'
      assert.equal(
        await storyOf(),
        `It cannot log in: after so many wrong codes ${none}.\n${came(10)}`,
      )
      assert.equal((await shownBy(email)).verdict.kind, 'only-known-devices')
      assert.equal((await login(email, next())).status, 401)

      await run('users', 'unlock', email)
      assert.equal(await storyOf(), 'It can log in.')
      const unlocked = (await eventsOf(email)).find(({ action }) => action === 'user.unlocked')
      assert.partialDeepStrictEqual(unlocked?.before, { failedSecondSteps: 10 })
      const known = await login(email, next(), PASSWORD, BROWSER)
      assert.equal(known.status, 200)
      const device = cookie(cookieIn(known, DEVICE_COOKIE), DEVICE_COOKIE)
      const count = (guesses: number) =>
        service.database.rows(
          `update users set failed_second_steps = ${guesses} where email = '${email}'`,
        )
      await count(10)
      const only = 'It can log in on known devices only, after so many wrong codes.'
      assert.equal(await storyOf(), `${only}\n${came(10)}`)
      assert.equal((await login(email, next())).status, 401)
      assert.equal((await login(email, next(), PASSWORD, device)).status, 200)
      await count(100)
      const nowhere = 'It cannot log in: after so many wrong codes no code is accepted.'
      assert.equal(await storyOf(), `${nowhere}\n${came(100)}`)
      assert.equal((await shownBy(email)).verdict.kind, 'too-many-guesses')
      assert.equal((await login(email, next(), PASSWORD, device)).status, 401)

      const set = await service.admin('PUT', `/users/${email}/password`, {
        password: 'tall blue lamp',
      })
      assert.equal(set.status, 200)
      assert.equal(await storyOf(), 'It can log in.')
      assert.equal((await login(email, next(), 'tall blue lamp')).status, 200)
    })

    test('a user is shown with how wrong the clock of the phone is', async () => {
      const { email, app } = await newUser()
      for (const [steps, said] of [
        [-3, '90 seconds late'],
        [4, '120 seconds early'],
      ] as const) {
        service.advance(STEP_MS)
        assert.equal((await login(email, app.code(steps))).status, 401)
        const [, note] = (await show(email)).split('\n')
        assert.equal(note, `The last code was ${said}: check the clock of the phone.`)
        assert.equal((await shownBy(email)).codeOffsetSeconds, steps * 30)
      }
      assert.equal((await login(email, app.code())).status, 200)
      assert.doesNotMatch(await show(email), /The last code/)
    })

    test('an auditor lists the users without a second factor, and exports it', async () => {
      const [withOne, without] = ['with-one@auditor.example', 'without@auditor.example']
      for (const email of [withOne, without]) await service.addUser(email)
      await newUser(withOne)
      for (const [filter, expected] of [
        ['none', [[without, 'none']]],
        ['any', [[withOne, 'totp']]],
      ] as const) {
        const args = ['--search', '@auditor', '--second-factor', filter, '--json']
        const listed: { email: string; secondFactor: string }[] = JSON.parse(
          (await run('users', 'list', ...args)).stdout,
        )
        const query = `search=%40auditor&secondFactor=${filter}`
        const { users } = (await service.admin('GET', `/users?${query}`)).json.data
        assert.deepEqual(users, listed)
        assert.deepEqual(
          listed.map(({ email, secondFactor }) => [email, secondFactor]),
          expected,
        )
      }
      const wrong = await service.admin('GET', '/users?secondFactor=totp')
      assert.equal(wrong.json.error.message, 'secondFactor is one of none,any.')
      const both = await run('users', 'list', '--search', '@auditor')
      assert.match(
        both.stdout,
        /^EMAIL .* SECOND FACTOR +STATE .*\n.* totp +active .*\n.* none +active /,
      )

      const exported = (await run('users', 'export', '--format', 'csv', '--with-hashes')).stdout
      const [heading, ...rows] = exported.split('\r\n')
      assert.match(heading ?? '', /,lastLoginAt,secondFactor,passwordHash$/)
      for (const [email, kind] of [
        [withOne, 'totp'],
        [without, 'none'],
      ] as const) {
        const row = rows.find(line => line.includes(email))
        assert.match(row ?? '', new RegExp(`,${kind},\\$2b\\$`))
      }
      // An import leaves it out: it does not set one up.
      const imported = await cli.run(['users', 'import', '-', '--dry-run'], exported, roles)
      assert.equal(imported.code, 0, imported.stderr)
    })

    test('the metrics tell how many users have one, counted once for many scrapes', async () => {
      const stored = await service.store.secondFactors.countUsers()
      assert.ok(stored > 0)
      const users = async () => (await scrape(opsPort)).get('users_with_second_factor')
      await until(async () => (await users()) === stored)
      const { email } = await newUser()
      for (let i = 0; i < 5; i++) assert.equal(await users(), stored)
      assert.equal((await scrape(opsPort)).get(COUNTED), 1)
      await run('users', 'delete', email, '--yes')
      assert.equal(await service.store.secondFactors.countUsers(), stored)
    })
  })
}
