// Ending all sessions of a user who has very many.
import assert from 'node:assert/strict'
import { dirname } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { ENGINES } from './engines.ts'
import { fillSessions } from './many-sessions.ts'
import { PROJECT, run, until } from './process.ts'
import { UNLIMITED } from './service.ts'
import { bearer, type SessionService, startSessionService } from './session-client.ts'

/** More than one statement of the service could end within its time limit. */
const MANY = 20_000
/** More than a command loads at a time. */
const SOME = 2_500

for (const engine of ENGINES) {
  describe(`a user with very many sessions on ${engine}`, () => {
    let service: SessionService
    before(async () => {
      service = await startSessionService(engine, UNLIMITED)
    })
    after(() => service.stop())

    async function userWith(sessions: number) {
      const email = await service.newUser()
      const login = await service.programLogin(email)
      await fillSessions(service.database, login.userId, sessions, service.now())
      return {
        email,
        login,
        count: () => service.store.countLiveSessions(login.userId, service.now()),
      }
    }
    const command = (...words: string[]) => {
      const { config } = service.database
      const env =
        config.engine === 'sqlite'
          ? { DATA_DIR: dirname(config.file) }
          : { DATA_DIR: service.dataDir, DATABASE_URL: config.url }
      return run(env, { command: [process.execPath, `${PROJECT}/src/main.ts`, ...words] })
    }
    const openRows = async (userId: string) => {
      const [row] = await service.database.rows(
        `select count(*) as n from sessions where user_id = '${userId}' and ended_at is null`,
      )
      return Number(row?.n)
    }

    test('can be deactivated within the time limits of the service, then deleted', async () => {
      const { email, login, count } = await userWith(MANY)
      const batches: number[] = []
      const change = service.store.deactivateUser(email, service.now(), ids => {
        batches.push(ids.length)
      })
      assert.equal(await change, true)
      assert.equal(await count(), 0)
      assert.equal(await openRows(login.userId), 0)
      assert.equal(
        batches.reduce((sum, length) => sum + length, 0),
        MANY + 1,
      )
      assert.ok(Math.max(...batches) <= 500)
      assert.equal((await service.refresh(login.refreshToken)).status, 401)

      assert.equal(await service.store.deleteUser(email), true)
      for (const table of ['sessions', 'refresh_tokens', 'devices']) {
        const left = await service.database.rows(
          `select id from ${table} where user_id = '${login.userId}' limit 1`,
        )
        assert.deepEqual(left, [], table)
      }
      assert.equal(await service.store.findUserByEmail(email), null)
    })

    test('has no live session once the change is made, though the command is killed', async () => {
      const { email, login, count } = await userWith(MANY)
      const deactivation = command('users', 'deactivate', email)
      const isDeactivated = async () => {
        const user = await service.store.findUserByEmail(email)
        return user?.isActive === false
      }
      await until(isDeactivated, 60_000)
      deactivation.kill('SIGKILL')
      await deactivation.exit
      assert.equal(await count(), 0)
      assert.equal((await service.refresh(login.refreshToken)).status, 401)
      // What the command did not get to mark stays dead, also when the user comes back.
      await service.store.activateUser(email, service.now())
      assert.equal(await count(), 0)
      assert.equal((await service.refresh(login.refreshToken)).status, 401)
      assert.equal((await service.get('/session', bearer(login.accessToken))).status, 401)
      const next = await service.programLogin(email)
      assert.equal(await count(), 1)
      assert.equal((await service.refresh(next.refreshToken)).status, 200)
    })

    test('can end all others, while other requests are answered', async () => {
      const { login, count } = await userWith(MANY)
      let isOver = false
      const ending = service.delete('/sessions', bearer(login.accessToken)).finally(() => {
        isOver = true
      })
      let answered = 0
      while (!isOver) {
        await service.call({ method: 'GET', path: '/.well-known/jwks.json' })
        answered++
      }
      assert.equal((await ending).status, 200)
      assert.ok(answered > 20, `${answered} answers meanwhile`)
      assert.equal(await count(), 1)
      assert.equal(await openRows(login.userId), 1)
      assert.equal((await service.refresh(login.refreshToken)).status, 200)
    })

    test('is listed and counted by commands without a look at the others', async () => {
      const { email } = await userWith(SOME)
      const shown = command('users', 'show', email)
      assert.deepEqual(await shown.exit, { code: 0, signal: null })
      assert.match(shown.output(), new RegExp(`^sessions +${SOME + 1} live$`, 'm'))
      const listed = command('sessions', 'list', email)
      assert.deepEqual(await listed.exit, { code: 0, signal: null })
      assert.equal(listed.output().split('\n').length, 1 + SOME + 1 + 1)
      const ended = command('sessions', 'end', email)
      assert.deepEqual(await ended.exit, { code: 0, signal: null })
      assert.match(ended.output(), new RegExp(`"ended":${SOME + 1},`))
    })
  })
}
