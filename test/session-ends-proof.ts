// Ending all sessions of a user that has very many.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { type Cli, createCli, MAIN } from './cli.ts'
import { fillSessions } from './many-sessions.ts'
import { run, until } from './process.ts'
import { UNLIMITED } from './service.ts'
import { bearer, type SessionService, startSessionService } from './session-client.ts'
import { changeAt } from './storage/fixtures.ts'

/** The most sessions that one statement ends. */
const BATCH = 500
/** More sessions than a command loads at a time. */
const SOME = 2_500

/** The tests of the calling suite, with this many sessions per user. */
export function proveSessionEnds(engine: EngineName, many: number): void {
  let service: SessionService
  let cli: Cli
  before(async () => {
    service = await startSessionService(engine, UNLIMITED)
    cli = await createCli(service.database)
  })
  after(async () => {
    await cli.remove()
    await service.stop()
  })

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
  const openRows = async (userId: string) => {
    const [row] = await service.database.rows(
      `select count(*) as n from sessions where user_id = '${userId}' and ended_at is null`,
    )
    return Number(row?.n)
  }

  test('can be deactivated in batches within the time limits of the service, then deleted', async () => {
    const { email, login, count } = await userWith(many)
    const batches: number[] = []
    const change = service.store.deactivateUser(email, changeAt(service.now()), ids => {
      batches.push(ids.length)
    })
    assert.equal(await change, true)
    assert.equal(await count(), 0)
    assert.equal(await openRows(login.userId), 0)
    assert.equal(
      batches.reduce((sum, length) => sum + length, 0),
      many + 1,
    )
    assert.ok(Math.max(...batches) <= BATCH)
    assert.equal((await service.refresh(login.refreshToken)).status, 401)

    assert.equal(await service.store.deleteUser(email, changeAt()), true)
    for (const table of ['sessions', 'refresh_tokens', 'devices']) {
      const left = await service.database.rows(
        `select id from ${table} where user_id = '${login.userId}' limit 1`,
      )
      assert.deepEqual(left, [], table)
    }
    assert.equal(await service.store.findUserByEmail(email), null)
  })

  test('has no live session once deactivated, even if the command is killed', async () => {
    const { email, login, count } = await userWith(many)
    const command = [process.execPath, MAIN, 'users', 'deactivate', email]
    const deactivation = run(cli.env, { command, cwd: cli.folder })
    const isDeactivated = async () => {
      const user = await service.store.findUserByEmail(email)
      return user?.isActive === false
    }
    await until(isDeactivated)
    deactivation.kill('SIGKILL')
    await deactivation.exit
    assert.equal(await count(), 0)
    assert.equal((await service.refresh(login.refreshToken)).status, 401)
    // Sessions that the command did not mark stay ended, also when the user is active again.
    await service.store.activateUser(email, changeAt(service.now()))
    assert.equal(await count(), 0)
    assert.equal((await service.refresh(login.refreshToken)).status, 401)
    assert.equal((await service.get('/session', bearer(login.accessToken))).status, 401)
    const next = await service.programLogin(email)
    assert.equal(await count(), 1)
    assert.equal((await service.refresh(next.refreshToken)).status, 200)
  })

  test('can end all other sessions while other requests are answered', async () => {
    const { login, count } = await userWith(many)
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
    assert.ok(answered > many / (2 * BATCH), `${answered} answers meanwhile`)
    assert.equal(await count(), 1)
    assert.equal(await openRows(login.userId), 1)
    assert.equal((await service.refresh(login.refreshToken)).status, 200)
  })

  test('has all sessions listed, counted and ended by commands', async () => {
    const { email } = await userWith(SOME)
    const shown = await cli.run(['users', 'show', email])
    assert.equal(shown.code, 0)
    assert.match(shown.stdout, new RegExp(`^sessions +${SOME + 1} live$`, 'm'))
    const listed = await cli.run(['sessions', 'list', email])
    assert.equal(listed.code, 0)
    assert.equal(listed.stdout.split('\n').length, 1 + SOME + 1 + 1)
    const ended = await cli.run(['sessions', 'end', email])
    assert.equal(ended.code, 0)
    assert.match(ended.stderr, new RegExp(`"ended":${SOME + 1},`))
  })
}
