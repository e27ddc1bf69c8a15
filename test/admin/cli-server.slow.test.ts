// Commands beside a running service, on the same database.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createCli } from '../support/cli.ts'
import { ENGINES } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { PASSWORD, startTestService } from '../support/service.ts'

const EMAIL = 'ann@example.org'

for (const engine of ENGINES) {
  describe(`commands beside a service on ${engine}`, async () => {
    const budgets = { THROTTLE_PAIR_FAILURES: '2', THROTTLE_EMAIL_FAILURES: '2' }
    const service = await own(startTestService(engine, budgets))
    const cli = await own(createCli(service.database))

    test('"users unlock" ends the block of an email at once', async () => {
      await service.addUser(EMAIL)
      const show = async (): Promise<unknown> => {
        const { stdout } = await cli.run(['users', 'show', EMAIL, '--json'])
        const { failedLoginAttempts, lockedBy, liveSessions } = JSON.parse(stdout)
        return { failedLoginAttempts, lockedBy, liveSessions }
      }

      for (const email of [EMAIL, 'unknown@example.org']) {
        for (const status of [401, 401, 429]) {
          assert.equal((await service.login(email, 'wrong')).status, status)
        }
      }
      assert.equal((await service.login(EMAIL, PASSWORD)).status, 429)
      const blocked = { failedLoginAttempts: 2, lockedBy: 'throttle', liveSessions: 0 }
      assert.deepEqual(await show(), blocked)

      assert.equal((await cli.run(['users', 'unlock', EMAIL])).code, 0)
      assert.equal((await service.login(EMAIL, PASSWORD)).status, 200)
      assert.deepEqual(await show(), { failedLoginAttempts: 0, lockedBy: null, liveSessions: 1 })

      assert.equal((await cli.run(['throttle', 'clear', '--email', 'unknown@example.org'])).code, 0)
      assert.equal((await service.login('unknown@example.org', PASSWORD)).status, 401)
    })

    test('a command finds exactly the email and id that it is given', async () => {
      const liveSessions = async (id: string) => {
        const page = { afterId: null, limit: 10 }
        const sessions = await service.store.sessions.listLive(id, page, service.now())
        return (sessions ?? []).map(session => session.id)
      }

      // Unicode lower-cases the first letter of the given email to the first letter of the user's email.
      for (const [user, named] of [
        ['änn@example.org', 'Änn@example.org'],
        ['kate@example.org', '\u212aate@example.org'],
      ] as const) {
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
