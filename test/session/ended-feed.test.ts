// The feed of ended sessions: what it lists and for how long, its cursor, and what it costs.
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { own } from '../support/own.ts'
import { type Answer, PASSWORD, startTestService, UNLIMITED } from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  DEVICE_COOKIE,
  INVALID_TOKEN,
  MINUTE_MS,
  ownChange,
  ownSessions,
  SECOND_MS,
} from '../support/session-client.ts'

const FEED = '/.well-known/ended-sessions'
const LISTED_MS = 65 * MINUTE_MS
/** An end is listed up to this much longer. */
const BLOCK_MS = 10 * SECOND_MS
type Feed = { ended: string[]; next: string; more: boolean }

for (const engine of ENGINES_BY_RUN) {
  describe(`the feed of ended sessions on ${engine}`, async () => {
    const env = { ...UNLIMITED, MAX_SESSIONS_PER_USER: '3' }
    const service = await ownSessions(engine, env)
    // Each test starts with a new read of the database, and without entries.
    beforeEach(() => service.advance(2 * LISTED_MS))

    const ask = (query = '', headers = {}) =>
      service.call({ method: 'GET', path: `${FEED}${query}`, headers })
    const feedOf = ({ status, text }: Answer): Feed => {
      assert.equal(status, 200, text)
      return JSON.parse(text)
    }
    /** With a new read of the database. */
    const read = async (query = '') => {
      service.advance(SECOND_MS)
      return feedOf(await ask(query))
    }
    const change = () => changeAt(service.now())
    const later = (ms: number) => new Date(service.now().getTime() + ms)
    /** A user with a live session that another user's end must not list. */
    const logIn = async () => {
      const email = await service.newUser()
      return { email, ...(await service.browserLogin(email)) }
    }
    type LoggedIn = Awaited<ReturnType<typeof logIn>>
    const users = () => byEmail(service.store)

    const ENDS: Record<string, (login: LoggedIn) => Promise<unknown>> = {
      'a logout by refresh token': login => service.logout(login.refreshToken),
      'a logout by access token': ({ accessToken }) =>
        service.call({ path: `${AUTH}/logout`, headers: bearer(accessToken), body: {} }),
      'a logout by cookie': login =>
        service.call({ path: `${AUTH}/logout`, headers: ownChange(login) }),
      'the end of a session by its user': ({ sessionId, accessToken }) =>
        service.delete(`/sessions/${sessionId}`, bearer(accessToken)),
      'the end of all other sessions': async ({ email }) => {
        const { accessToken } = await service.programLogin(email)
        return service.delete('/sessions', bearer(accessToken))
      },
      'a reused refresh token': async ({ refreshToken }) => {
        await service.refresh(refreshToken)
        service.advance(2 * MINUTE_MS)
        assert.equal((await service.refresh(refreshToken)).status, 401)
      },
      'a change of the password': ({ email }) => {
        const newPassword = 'seven green boats at noon'
        const body = { email, currentPassword: PASSWORD, newPassword }
        return service.call({ path: `${AUTH}/password`, body })
      },
      'a login beyond the limit': async ({ email }) => {
        for (let i = 0; i < 3; i++) await service.programLogin(email)
      },
      'another login with its cookie': ({ email, cookie: value }) =>
        service.browserLogin(email, { headers: cookie(value) }),
      'a login on the same device, hours later': ({ email, device }) => {
        service.advance(121 * MINUTE_MS)
        return service.browserLogin(email, { headers: cookie(device, DEVICE_COOKIE) })
      },
      'the end of a session by an administrator': ({ sessionId }) =>
        service.store.sessions.endByAdministrator(sessionId, change()),
      'the end of all sessions by an administrator': ({ email }) =>
        users().endSessions(email, change()),
      'a lock': ({ email }) => users().lock(email, later(MINUTE_MS), change()),
      'a deactivation': ({ email }) => users().deactivate(email, change()),
      'a password set by an administrator': ({ email }) =>
        users().setPassword(email, 'a hash', change()),
      'an import': ({ email, userId: id }) => {
        const unsaid = { role: null, createdAt: null, lockedUntil: null }
        const user = { id, isIdGiven: true, email, passwordHash: 'x', name: 'N', isActive: false }
        const options = { mayUpdate: true, isDryRun: false }
        return service.store.imports.run([{ ...user, ...unsaid }], options, change())
      },
      'a deletion': ({ email }) => users().delete(email, change()),
    }
    for (const [name, end] of Object.entries(ENDS)) {
      test(`${name} ends a session, which is listed for 65 minutes, and no other`, async t => {
        service.stopClock(t)
        const other = await logIn()
        const login = await logIn()
        assert.deepEqual((await read()).ended, [])
        // Its session is older than any that the end opens.
        service.advance(1)
        await end(login)
        assert.equal((await service.refresh(login.refreshToken)).text, INVALID_TOKEN)
        const session = await service.get('/session', bearer(login.accessToken))
        assert.equal(session.text, INVALID_TOKEN)
        const { ended, ...rest } = await read()
        assert.deepEqual(ended, [login.sessionId])
        assert.deepEqual(Object.keys(rest), ['next', 'more'])
        service.advance(LISTED_MS - 5 * SECOND_MS)
        await service.store.maintenance.purge(service.now())
        assert.deepEqual((await read()).ended, [login.sessionId])
        service.advance(5 * SECOND_MS + BLOCK_MS)
        assert.deepEqual((await read()).ended, [])
        assert.equal((await service.refresh(other.refreshToken)).status, 200)
      })
    }

    test('lists a session that lived by its cookie for 65 minutes, although it would have expired before', async () => {
      const login = await logIn()
      const soon = later(30 * MINUTE_MS).toISOString()
      // As after a week in which only the cookie was used.
      await service.database.rows(`update sessions set idle_expires_at = '${soon}',
        purge_at = '${soon}' where id = '${login.sessionId}'`)
      await service.call({ path: `${AUTH}/logout`, headers: ownChange(login) })
      for (let minutes = 0; minutes < 62; minutes += 31) {
        service.advance(31 * MINUTE_MS)
        await service.store.maintenance.purge(service.now())
        assert.deepEqual((await read()).ended, [login.sessionId])
      }
      service.advance(2 * LISTED_MS)
      assert.ok((await service.store.maintenance.purge(service.now()))?.sessions)
    })

    test('does not list a session that has expired', async () => {
      const { refreshToken } = await logIn()
      service.advance(8 * 24 * 60 * MINUTE_MS)
      assert.equal((await service.refresh(refreshToken)).status, 401)
      await service.store.maintenance.purge(service.now())
      assert.deepEqual((await read()).ended, [])
    })

    test('keeps the ids of a deleted user no longer than 65 minutes', async () => {
      const logins = [await logIn(), await logIn()]
      await service.logout(logins[0]?.refreshToken)
      service.advance(LISTED_MS)
      for (const { email } of logins) await users().delete(email, change())
      const rows = () => service.database.rows('select id from ended_sessions')
      const kept = (await rows()).map(({ id }) => id)
      assert.deepEqual(kept, [logins[1]?.sessionId])
      service.advance(LISTED_MS)
      await service.store.maintenance.purge(service.now())
      assert.deepEqual(await rows(), [])
    })

    test('25,000 ends of one millisecond come in pages of at most 10,000, from any instance', async () => {
      const { userId } = await logIn()
      const filling = { tokensEach: 0, endedAt: service.now() }
      await fillSessions(service.database, userId, 25_000, service.now(), filling)
      const other = await own(startTestService(engine, service.env, service))
      other.advance(service.now().getTime() - other.now().getTime())
      const ids = new Set<string>()
      const pages: Feed[] = []
      for (let next = ''; pages.at(-1)?.more !== false; next = `?after=${pages.at(-1)?.next}`) {
        const instance = pages.length % 2 ? other : service
        const page = feedOf(await instance.call({ method: 'GET', path: `${FEED}${next}` }))
        assert.ok(page.ended.length > 0 && page.ended.length <= 10_000)
        for (const id of page.ended) ids.add(id)
        pages.push(page)
      }
      assert.deepEqual([pages.length, ids.size], [3, 25_000])
      // A caller that lost its place gets the whole page that it is in.
      const place = pages[0]?.next.replace(/.{12}$/, '0'.repeat(12))
      assert.equal(feedOf(await ask(`?after=${place}`)).ended.length, 10_000)
      const beyond = feedOf(await ask(`?after=${pages[0]?.next.replace(/[^.]+$/, 'f'.repeat(36))}`))
      assert.deepEqual(beyond, { ...beyond, ended: [], more: false })
    })

    test('an unchanged answer is not sent again', async () => {
      await service.logout((await logIn()).refreshToken)
      service.advance(SECOND_MS)
      const { headers, text } = await ask()
      const etag = String(headers.etag)
      assert.match(etag, /^"[\da-f]{32}"$/)
      assert.equal(headers['cache-control'], 'public, max-age=1')
      service.advance(SECOND_MS)
      for (const tag of [etag, `W/${etag}`, `"x", ${etag}`]) {
        const again = await ask('', { 'If-None-Match': tag })
        assert.equal(again.status, 304, tag)
        assert.equal(again.text, '')
        assert.equal(again.headers.etag, etag)
      }
      assert.equal((await ask('', { 'If-None-Match': '"x"' })).text, text)
      await service.logout((await logIn()).refreshToken)
      service.advance(SECOND_MS)
      assert.equal((await ask('', { 'If-None-Match': etag })).status, 200)
    })

    test('a cursor that was never given is refused', async () => {
      const { next } = await read()
      const ahead = service.now().getTime() + MINUTE_MS
      for (const query of [
        ...['after=', 'after=x', 'after=-1', 'after=1.5', 'after=1e3', 'after=%201', 'after=0x10'],
        ...['after=99999999999999999999', 'after=999999999999999', `after=${ahead}`],
        ...[`after=${next}&after=${next}`, 'after=%00', 'after=١', 'after=0.0'],
        ...[`after=0.${ahead}.x`, `after=${ahead}.0.${'0'.repeat(36)}`],
      ]) {
        const { status, json } = await ask(`?${query}`)
        assert.equal(status, 400, query)
        assert.deepEqual(json.error.fields, ['after'], query)
      }
      assert.deepEqual(feedOf(await ask('?other=1')), { ended: [], next, more: false })
    })
  })
}
