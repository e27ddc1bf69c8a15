// Commands beside a running service, on the same database.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import bcrypt from 'bcrypt'
import { createCli } from '../support/cli.ts'
import { createTestDatabase, ENGINES } from '../support/engines.ts'
import { PASSWORD, startTestService } from '../support/service.ts'

const EMAIL = 'ann@example.org'

for (const engine of ENGINES) {
  test(`"users unlock" ends the block of an email at once, on ${engine}`, async t => {
    const service = await startTestService(engine, {
      THROTTLE_PAIR_FAILURES: '2',
      THROTTLE_EMAIL_FAILURES: '2',
    })
    const cli = await createCli(service.database)
    t.after(async () => {
      await cli.remove()
      await service.stop()
    })
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
    assert.deepEqual(await show(), {
      failedLoginAttempts: 2,
      lockedBy: 'throttle',
      liveSessions: 0,
    })

    assert.equal((await cli.run(['users', 'unlock', EMAIL])).code, 0)
    assert.equal((await service.login(EMAIL, PASSWORD)).status, 200)
    assert.deepEqual(await show(), { failedLoginAttempts: 0, lockedBy: null, liveSessions: 1 })

    assert.equal((await cli.run(['throttle', 'clear', '--email', 'unknown@example.org'])).code, 0)
    assert.equal((await service.login('unknown@example.org', PASSWORD)).status, 401)
  })

  test(`of three processes that add one email to a new database at once, one succeeds, on ${engine}`, async t => {
    const database = await createTestDatabase(engine)
    const cli = await createCli(database)
    t.after(async () => {
      await cli.remove()
      await database.drop()
    })
    const names = ['first', 'second', 'third']
    const added = await Promise.all(
      names.map(name =>
        cli.runProcess(
          ['users', 'add', EMAIL, '--name', name, '--password-stdin'],
          `${name} password`,
        ),
      ),
    )
    assert.deepEqual(added.map(({ code }) => code).sort(), [0, 1, 1])
    const refusals = added.filter(({ code }) => code === 1).map(({ stderr }) => stderr)
    // Each of the migrations may have been applied by any of the processes, which says so.
    for (const said of refusals) {
      assert.match(
        said,
        /^(Updating the tables: .*\n)*There is already a user ann@example\.org\.\n$/,
      )
    }
    const [user, ...others] = await database.rows('select name, password_hash from users')
    assert.equal(others.length, 0)
    assert.equal(user?.name, names[added.findIndex(({ code }) => code === 0)])
    assert.ok(await bcrypt.compare(`${user?.name} password`, String(user?.password_hash)))
  })

  test(`a command finds exactly the email and id that it is given, on ${engine}`, async t => {
    const service = await startTestService(engine)
    const cli = await createCli(service.database)
    t.after(async () => {
      await cli.remove()
      await service.stop()
    })
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
}
