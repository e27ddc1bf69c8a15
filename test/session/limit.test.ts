// How many sessions a user can have, which of them a login ends, and how all of them are listed and ended.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { createCli, MAIN } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { inParallel, own } from '../support/own.ts'
import { run, until } from '../support/process.ts'
import { countStatuses, PASSWORD, UNLIMITED } from '../support/service.ts'
import {
  bearer,
  cookie,
  DEVICE_COOKIE,
  endedBy,
  type Login,
  MINUTE_MS,
  ownSessions,
  SESSION_COOKIE,
  startSessionService,
} from '../support/session-client.ts'

const MAX = 100
/** The largest MAX_SESSIONS_PER_USER. */
const MOST = 1_000
/** More sessions than a command loads at a time, as after a failed end of sessions over the limit. */
const MORE = 2_500

for (const engine of ENGINES_BY_RUN) {
  describe(`many sessions of a user on ${engine}`, async () => {
    const service = await ownSessions(engine, UNLIMITED)
    const cli = await own(createCli(service.database))

    async function userWith(sessions: number) {
      const email = await service.newUser()
      const login = await service.programLogin(email)
      await fillSessions(service.database, login.userId, sessions - 1, service.now())
      return { email, ...login }
    }
    const openRows = async (userId: string) => {
      const [row] = await service.database.rows(
        `select count(*) as n from sessions where user_id = '${userId}' and ended_at is null`,
      )
      return Number(row?.n)
    }
    const count = (userId: string) => service.store.sessions.countLive(userId, service.now())
    const isLive = async ({ refreshToken }: Login) =>
      (await service.refresh(refreshToken)).status === 200
    const cookies = (session: string, device: string) => ({
      headers: { Cookie: `${SESSION_COOKIE}=${session}; ${DEVICE_COOKIE}=${device}` },
    })

    test('beyond the limit the least recently used session ends and is logged', async () => {
      const email = await service.newUser()
      const used = await service.programLogin(email)
      service.advance(MINUTE_MS)
      const unused = await service.programLogin(email)
      // Of sessions that were used in the same millisecond, the id would decide.
      service.advance(1)
      await fillSessions(service.database, unused.userId, MAX - 2, service.now())
      service.advance(MINUTE_MS)
      const { json } = await service.refresh(used.refreshToken)
      assert.equal(await count(used.userId), MAX)
      const ended = await endedBy(service, () => service.programLogin(email))
      assert.deepEqual(ended, [['limit', unused.sessionId, unused.userId]])
      assert.equal(await isLive(unused), false)
      assert.equal((await service.refresh(json.data.refreshToken)).status, 200)
      assert.equal(await count(used.userId), MAX)
    })

    test('each login of a user with 2,000 sessions ends 100 of them', async () => {
      const { email, userId } = await userWith(2_000)
      const last = await service.programLogin(email)
      assert.equal(await count(userId), 2_000 + 1 - 100)
      assert.equal(await isLive(last), true)
    })

    test('a login ends the session of the cookie that it was sent with, live or idle', async () => {
      const email = await service.newUser()
      for (const idleMs of [0, 40 * MINUTE_MS]) {
        const old = await service.browserLogin(email)
        const other = await service.browserLogin(email)
        service.advance(idleMs)
        const call = cookies(old.cookie, old.device)
        const ended = await endedBy(service, async () => {
          assert.notEqual((await service.browserLogin(email, call)).cookie, old.cookie)
        })
        assert.deepEqual(ended, [['replaced', old.sessionId, old.userId]])
        assert.equal(await isLive(old), false)
        assert.equal(await isLive(other), true)
        assert.equal((await service.get('/session', cookie(old.cookie))).status, 401)
      }
    })

    test('a login ends the session of the cookie of another user, too; a failed login ends none', async () => {
      const [first, second] = [await service.newUser(), await service.newUser()]
      const old = await service.browserLogin(first)
      const headers = { 'Sec-Fetch-Site': 'same-origin', ...cookie(old.cookie) }
      const body = { email: second, password: 'wrong' }
      assert.equal((await service.call({ headers, body })).status, 401)
      assert.equal((await service.get('/session', cookie(old.cookie))).status, 200)
      const ended = await endedBy(service, () =>
        service.browserLogin(second, { headers: cookie(old.cookie) }),
      )
      assert.deepEqual(ended, [['replaced', old.sessionId, old.userId]])
    })

    test('a login never adopts the session cookie of a client', async () => {
      const email = await service.newUser()
      const chosen = 'A'.repeat(43)
      const call = { headers: cookie(chosen) }
      assert.notEqual((await service.browserLogin(email, call)).cookie, chosen)
      assert.equal((await service.get('/session', cookie(chosen))).status, 401)
    })

    test('a program that sends a cookie ends nothing', async () => {
      const email = await service.newUser()
      const old = await service.browserLogin(email)
      const body = { email, password: PASSWORD }
      const call = { ...cookies(old.cookie, old.device), body }
      const ended = await endedBy(service, () => service.call(call))
      assert.deepEqual(ended, [])
      assert.equal(await isLive(old), true)
    })

    test('a login ends only the session of its device that was not used for two hours', async () => {
      const email = await service.newUser()
      const abandoned = await service.browserLogin(email)
      const { device } = abandoned
      const onDevice = () => service.browserLogin(email, { headers: cookie(device, DEVICE_COOKIE) })
      const [byToken, byCookie] = [await onDevice(), await onDevice()]
      const elsewhere = await service.browserLogin(email)
      const program = await service.programLogin(email)
      const stranger = await service.browserLogin(await service.newUser())
      let token = byToken.refreshToken
      for (let minutes = 0; minutes < 125; minutes += 25) {
        service.advance(25 * MINUTE_MS)
        assert.equal((await service.get('/session', cookie(byCookie.cookie))).status, 200)
        // Refreshes about once an hour, like a single-page application.
        if (minutes === 50) token = (await service.refresh(token)).json.data.refreshToken
      }
      const ended = await endedBy(service, onDevice)
      assert.deepEqual(ended, [['abandoned', abandoned.sessionId, abandoned.userId]])
      assert.equal((await service.refresh(token)).status, 200)
      for (const login of [byCookie, elsewhere, program, stranger]) {
        assert.equal(await isLive(login), true)
      }
    })

    test('of logins at the same time that replace one session, one logs its end', async () => {
      const email = await service.newUser()
      const old = await service.browserLogin(email)
      const call = cookies(old.cookie, old.device)
      const ended = await endedBy(service, () =>
        inParallel(8, () => service.browserLogin(email, call)),
      )
      assert.deepEqual(ended, [['replaced', old.sessionId, old.userId]])
      assert.equal(await count(old.userId), 8)
    })

    test('logouts, logins beyond the limit and refreshes at the same time leave at most 100 sessions', async () => {
      const email = await service.newUser()
      const logins = await inParallel(4, () => service.programLogin(email))
      const userId = logins[0]?.userId ?? ''
      await fillSessions(service.database, userId, MAX, service.now())
      const answers = await Promise.all([
        ...logins.flatMap(({ refreshToken }) => [
          service.refresh(refreshToken),
          service.logout(refreshToken),
        ]),
        inParallel(20, () => service.login(email, PASSWORD)),
      ])
      const { 200: _, 401: __, 503: ___, ...others } = countStatuses(answers.flat())
      assert.deepEqual(others, {})
      await service.programLogin(email)
      assert.ok((await count(userId)) <= MAX)
    })

    test('GET /sessions returns each session once, in pages of at most 100', async () => {
      const { sessionId, accessToken } = await userWith(235)
      const page = (query: string) => service.get(`/sessions${query}`, bearer(accessToken))
      for (const [query, pages] of [
        ['?', 3],
        ['?limit=100', 3],
        ['?limit=47', 5],
      ] as const) {
        const seen: string[] = []
        let [next, count]: [string | undefined, number] = [undefined, 0]
        do {
          const after: string = next === undefined ? '' : `&after=${next}`
          const { status, json } = await page(`${query}${after}`)
          assert.equal(status, 200)
          seen.push(...json.data.sessions.map(({ id }) => id))
          next = json.data.next
          count++
        } while (next !== undefined)
        assert.deepEqual([count, seen.length, new Set(seen).size], [pages, 235, 235])
        assert.ok(seen.includes(sessionId))
      }
      const first = (await page('?limit=2')).json.data
      assert.equal(first.sessions.length, 2)
      await service.delete(`/sessions/${first.next}`, bearer(accessToken))
      for (const id of [first.next, first.next?.toUpperCase()]) {
        const { status } = await page(`?after=${id}`)
        assert.equal(status, 200, 'an ended session is still a valid start of a page')
      }

      const stranger = await service.programLogin(await service.newUser())
      const limits = ['0', '101', '-1', '1e1', '010', '1.5', 'x', '', '9'.repeat(400)]
      const ids = [stranger.sessionId, crypto.randomUUID(), 'x', '', '%00', "'--"]
      for (const [field, values] of [
        ['limit', limits],
        ['after', [...ids, `${sessionId}&after=${sessionId}`]],
      ] as const) {
        for (const value of values) {
          const { status, json } = await page(`?${field}=${value}`)
          const { code, fields } = json.error
          assert.deepEqual([status, code, fields], [400, 'BAD_REQUEST', [field]], value)
        }
      }
    })

    test('a user has no live session once deactivated, even if the command is killed', async () => {
      const { email, ...login } = await userWith(MOST)
      const command = [process.execPath, MAIN, 'users', 'deactivate', email]
      const deactivation = run(cli.env, { command, cwd: cli.folder })
      await until(async () => !(await service.store.users.findByEmail(email))?.isActive)
      deactivation.kill('SIGKILL')
      await deactivation.exit
      assert.equal(await openRows(login.userId), 0)
      await byEmail(service.store).activate(email, changeAt(service.now()))
      assert.equal(await count(login.userId), 0)
      assert.equal(await isLive(login), false)
      assert.equal((await service.get('/session', bearer(login.accessToken))).status, 401)
      const next = await service.programLogin(email)
      assert.equal(await count(login.userId), 1)
      assert.equal(await isLive(next), true)
    })

    test('DELETE /sessions ends and logs all other sessions', async () => {
      const login = await userWith(MOST)
      const ended = await endedBy(service, async () => {
        const { status } = await service.delete('/sessions', bearer(login.accessToken))
        assert.equal(status, 200)
      })
      assert.equal(ended.length, MOST - 1)
      assert.equal(await openRows(login.userId), 1)
      assert.equal(await isLive(login), true)
    })

    test('commands list, count and end all sessions', async () => {
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

test('a login that cannot end the sessions over the limit opens none', async () => {
  const service = await own(startSessionService('postgres', { MAX_SESSIONS_PER_USER: '1' }))
  const email = await service.newUser()
  const { userId } = await service.programLogin(email)
  await service.database.rows(`create function keep() returns trigger language plpgsql
    as $$ begin raise exception 'kept'; end $$`)
  await service.database.rows(
    'create trigger keeping before update on sessions for each row execute function keep()',
  )
  await assert.rejects(service.programLogin(email), /INTERNAL_ERROR/)
  await service.database.rows('drop trigger keeping on sessions')
  assert.equal(await service.store.sessions.countLive(userId, service.now()), 1)
  await service.programLogin(email)
  assert.equal(await service.store.sessions.countLive(userId, service.now()), 1)
})
