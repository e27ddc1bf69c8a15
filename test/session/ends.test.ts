// Ending all sessions of a user that has as many as the service allows.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { createCli, MAIN } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { own } from '../support/own.ts'
import { run, until } from '../support/process.ts'
import { UNLIMITED } from '../support/service.ts'
import { bearer, startSessionService } from '../support/session-client.ts'

/** The largest MAX_SESSIONS_PER_USER. */
const MOST = 1_000
/** More sessions than a command loads at a time, as after a failed end of sessions over the limit. */
const MORE = 2_500

for (const engine of ENGINES_BY_RUN) {
  describe(`a user with ${MOST} sessions on ${engine}`, async () => {
    const service = await own(startSessionService(engine, UNLIMITED))
    const cli = await own(createCli(service.database))

    async function userWith(sessions: number) {
      const email = await service.newUser()
      const login = await service.programLogin(email)
      await fillSessions(service.database, login.userId, sessions - 1, service.now())
      const count = () => service.store.sessions.countLive(login.userId, service.now())
      return { email, login, count }
    }
    const openRows = async (userId: string) => {
      const [row] = await service.database.rows(
        `select count(*) as n from sessions where user_id = '${userId}' and ended_at is null`,
      )
      return Number(row?.n)
    }

    test('has no live session once deactivated, even if the command is killed', async () => {
      const { email, login, count } = await userWith(MOST)
      const command = [process.execPath, MAIN, 'users', 'deactivate', email]
      const deactivation = run(cli.env, { command, cwd: cli.folder })
      await until(async () => !(await service.store.users.findByEmail(email))?.isActive)
      deactivation.kill('SIGKILL')
      await deactivation.exit
      assert.equal(await openRows(login.userId), 0)
      await byEmail(service.store).activate(email, changeAt(service.now()))
      assert.equal(await count(), 0)
      assert.equal((await service.refresh(login.refreshToken)).status, 401)
      assert.equal((await service.get('/session', bearer(login.accessToken))).status, 401)
      const next = await service.programLogin(email)
      assert.equal(await count(), 1)
      assert.equal((await service.refresh(next.refreshToken)).status, 200)
    })

    test('can end all other sessions, each of which is logged', async () => {
      const { login, count } = await userWith(MOST)
      assert.equal((await service.delete('/sessions', bearer(login.accessToken))).status, 200)
      assert.equal(await count(), 1)
      assert.equal(await openRows(login.userId), 1)
      assert.equal((await service.refresh(login.refreshToken)).status, 200)
      const ended = service
        .logged()
        .filter(({ event, userId }) => event === 'session.ended' && userId === login.userId)
      assert.equal(ended.length, MOST - 1)
    })

    test('has all sessions listed, counted and ended by commands', async () => {
      const { email } = await userWith(MORE)
      const shown = await cli.run(['users', 'show', email])
      const listed = await cli.run(['sessions', 'list', email])
      const ended = await cli.run(['sessions', 'end', email])
      assert.deepEqual([shown.code, listed.code, ended.code], [0, 0, 0])
      assert.match(shown.stdout, new RegExp(`^sessions +${MORE} live$`, 'm'))
      assert.equal(listed.stdout.split('\n').length, 1 + MORE + 1)
      assert.match(ended.stderr, new RegExp(`"ended":${MORE},`))
    })
  })
}
