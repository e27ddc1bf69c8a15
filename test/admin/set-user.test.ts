// Commands beside a running service: a user's email, name and role change while sessions, devices and other changes go on.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeJwt } from 'jose'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { createCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import { PASSWORD } from '../support/service.ts'
import { bearer, cookie, DEVICE_COOKIE, startSessionService } from '../support/session-client.ts'

for (const engine of ENGINES_BY_RUN) {
  test(`"users set" keeps sessions, devices and password, and reaches the token at the next refresh, on ${engine}`, async () => {
    const service = await own(startSessionService(engine))
    const cli = await own(createCli(service.database))
    const set = async (user: string, ...fields: string[]) =>
      assert.equal((await cli.run(['users', 'set', user, ...fields])).code, 0)
    const show = async (user: string) =>
      JSON.parse((await cli.run(['users', 'show', user, '--json'])).stdout)
    const old = 'ann@example.org'
    const email = 'anna@example.org'
    await service.addUser(old)
    const { refreshToken, accessToken, device, userId } = await service.browserLogin(old)

    await set(old, '--email', 'Anna@example.org', '--name', 'Anna', '--role', 'admin')

    const session = await service.get('/session', bearer(accessToken))
    assert.equal(session.json.data.user.email, email)
    const refreshed = await service.refresh(refreshToken)
    assert.equal(refreshed.status, 200)
    const claims = decodeJwt(refreshed.json.data.accessToken)
    assert.partialDeepStrictEqual(claims, { sub: userId, email, name: 'Anna', role: 'admin' })
    assert.equal(refreshed.json.data.user.role, 'admin')

    assert.equal((await service.login(old, PASSWORD)).status, 401)
    assert.equal((await service.login(email, PASSWORD)).status, 200)
    const shown = await show(email)
    assert.deepEqual([shown.id, shown.devices.length], [userId, 1])
    assert.notEqual(shown.lastLoginAt, null)

    // The known device has its own failures under the new email too.
    const fromDevice = async (password: string) => {
      const headers = { 'Sec-Fetch-Site': 'same-origin', ...cookie(device, DEVICE_COOKIE) }
      return (await service.call({ body: { email, password }, headers })).status
    }
    for (let i = 0; i < 5; i++) assert.equal(await fromDevice('wrong'), 401)
    assert.equal(await fromDevice(PASSWORD), 429)
    assert.equal((await service.login(email, PASSWORD)).status, 200, 'the email is not blocked')
    await set(email, '--email', 'ann.smith@example.org')
    const { devices } = await show('ann.smith@example.org')
    assert.equal(devices[0].waitsUntil, null, 'the device has no failures under the newest one')

    // Failures of an email stay with it: they may have been guesses at another user.
    await service.addUser('ben@example.org')
    for (let i = 0; i < 5; i++) await service.login('ben@example.org', 'wrong', '127.3.0.1')
    await set('ben@example.org', '--email', 'benjamin@example.org')
    assert.equal((await service.login('benjamin@example.org', PASSWORD, '127.3.0.1')).status, 200)
    assert.equal((await service.login('ben@example.org', PASSWORD, '127.3.0.1')).status, 429)

    // So does the wait of the user.
    await service.addUser('cat@example.org')
    for (let i = 0; i < 21; i++) {
      await service.login('cat@example.org', 'wrong', `127.3.1.${1 + Math.floor(i / 5)}`)
    }
    assert.equal((await show('cat@example.org')).state, 'waiting')
    await set('cat@example.org', '--email', 'cathy@example.org')
    assert.equal((await show('cathy@example.org')).state, 'active')
    assert.equal((await service.login('cathy@example.org', PASSWORD)).status, 200)
    await service.assertSecretsKept()
  })

  test(`logins, changes of the email and clears at once all end without a fault, on ${engine}`, async () => {
    const service = await own(startSessionService(engine))
    const { store } = service
    const emails = ['ann@example.org', 'anna@example.org'] as const
    const id = await service.addUser(emails[0])
    const logins = inParallel(60, i =>
      service.login(emails[i % 2], i % 3 === 0 ? 'wrong' : PASSWORD, `127.7.0.${1 + (i % 5)}`),
    )
    const changes = inParallel(30, async i => {
      const change = changeAt(service.now())
      const [from, to] = i % 2 === 0 ? emails : emails.toReversed()
      if (i % 3 === 0) return store.throttle.clearOfEmail(from ?? '', change)
      return byEmail(store).set(from ?? '', { email: to ?? '' }, change)
    })
    const outcomes = await changes
    for (const { status } of await logins) {
      assert.ok([200, 401, 429].includes(status), String(status))
    }
    const changed = outcomes.filter(outcome => Object(outcome).isChanged).length
    const expected = emails[changed % 2] ?? ''
    assert.equal((await store.users.findByEmail(expected))?.id, id)
    assert.equal(await store.users.count(), 1)
  })

  describe(`commands beside a service on ${engine}`, async () => {
    const budgets = { THROTTLE_PAIR_FAILURES: '2', THROTTLE_EMAIL_FAILURES: '2' }
    const service = await own(startSessionService(engine, budgets))
    const cli = await own(createCli(service.database))

    test('"users unlock" ends the block of an email at once', async () => {
      const email = 'ann@example.org'
      await service.addUser(email)
      const show = async (): Promise<unknown> => {
        const { stdout } = await cli.run(['users', 'show', email, '--json'])
        const { failedLoginAttempts, lockedBy, liveSessions } = JSON.parse(stdout)
        return { failedLoginAttempts, lockedBy, liveSessions }
      }

      for (let i = 0; i < 2; i++) assert.equal((await service.login(email, 'wrong')).status, 401)
      assert.equal((await service.login(email, PASSWORD)).status, 429)
      const blocked = { failedLoginAttempts: 2, lockedBy: 'throttle', liveSessions: 0 }
      assert.deepEqual(await show(), blocked)

      assert.equal((await cli.run(['users', 'unlock', email])).code, 0)
      assert.equal((await service.login(email, PASSWORD)).status, 200)
      assert.deepEqual(await show(), { failedLoginAttempts: 0, lockedBy: null, liveSessions: 1 })
    })

    test('a command finds exactly the email and id that it is given', async () => {
      const liveSessions = async (id: string) => {
        const page = { afterId: null, limit: 10 }
        const sessions = await service.store.sessions.listLive(id, page, service.now())
        return (sessions ?? []).map(session => session.id)
      }

      // Unicode lower-cases the first letter of the given email to the first letter of the user's email.
      for (const named of ['Änn@example.org', '\u212aate@example.org']) {
        const user = named.toLowerCase()
        const id = await service.addUser(user)
        assert.equal((await service.login(user, PASSWORD)).status, 200)
        for (const command of ['sessions end', 'sessions list', 'users deactivate']) {
          const { code, stderr } = await cli.run([...command.split(' '), named])
          assert.deepEqual([code, stderr], [1, `There is no user ${named}.\n`], command)
        }
        const [session = '', ...others] = await liveSessions(id)
        assert.deepEqual(others, [])
        const ended = await cli.run(['sessions', 'end', ` ${session.toUpperCase()} `])
        assert.deepEqual([ended.code, await liveSessions(id)], [0, []])
        assert.equal((await service.login(user, PASSWORD)).status, 200)
        const all = await cli.run(['sessions', 'end', ` ${user.replace('example', 'EXAMPLE')} `])
        assert.deepEqual([all.code, await liveSessions(id)], [0, []])
      }
    })
  })
}
