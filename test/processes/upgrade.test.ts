// The previous release serves while the tables are migrated, and after it, beside the new one.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { OutgoingHttpHeaders } from 'node:http'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { ENGINES, openTestStore } from '../engines.ts'
import { createDeployment, type Deployment, run, type ServiceProcess, until } from '../process.ts'
import { type Answer, type Call, PASSWORD } from '../service.ts'
import { AUTH, bearer, cookie, cookieIn, SESSION_COOKIE } from '../session-client.ts'
import { addEvent, addUser, migrate, migrationNames, useRelease } from '../upgrade/releases.ts'

const FAST_MINUTE = new URL('../upgrade/fast-minute.ts', import.meta.url).href
const CLIENTS = 4

const servePrevious = useRelease('previous')

/** Counts the requests that failed. */
let failed = 0

/**
 * Repeats a request that failed, as a client would: on a busy machine an operation of the database may miss its
 * time limit.
 */
async function call(service: ServiceProcess, request: Call): Promise<Answer> {
  const answer = await service.call(request)
  if (answer.status < 500) return answer
  failed++
  return call(service, request)
}

for (const engine of ENGINES) {
  describe(`the previous release on ${engine}`, () => {
    let deployment: Deployment
    let previous: ServiceProcess
    let next: ServiceProcess
    before(async () => {
      deployment = await createDeployment(engine, {}, undefined, false)
      const env = { NODE_OPTIONS: `--import=${FAST_MINUTE}` }
      previous = await deployment.start(env, { command: servePrevious() })
    })
    after(() => deployment.remove())

    async function logIn(service: ServiceProcess, email: string) {
      const headers = { 'Sec-Fetch-Site': 'same-origin' }
      const answer = await call(service, { headers, body: { email, password: PASSWORD } })
      assert.equal(answer.status, 200, answer.text)
      const { accessToken, refreshToken } = answer.json.data
      return { accessToken, refreshToken, cookie: cookieIn(answer, SESSION_COOKIE) }
    }
    const get = (service: ServiceProcess, path: string, headers: OutgoingHttpHeaders) =>
      call(service, { method: 'GET', path: `${AUTH}${path}`, headers })
    const post = (service: ServiceProcess, path: string, refreshToken: string) =>
      call(service, { path: `${AUTH}${path}`, body: { refreshToken } })

    /** Every operation, by the credentials of a session that may have been opened by another version. */
    async function useSession(service: ServiceProcess, opened: Awaited<ReturnType<typeof logIn>>) {
      const found = await get(service, '/session', bearer(opened.accessToken))
      assert.equal(found.status, 200, found.text)
      assert.equal((await get(service, '/session', cookie(opened.cookie))).status, 200)
      const listed = await get(service, '/sessions', bearer(opened.accessToken))
      const ids = listed.json.data.sessions.map(({ id }) => id)
      assert.ok(ids.includes(found.json.data.session.id), listed.text)
      const refreshed = await post(service, '/refresh', opened.refreshToken)
      assert.equal(refreshed.status, 200, refreshed.text)
      return { ...opened, ...refreshed.json.data }
    }

    test('serves logins, sessions and refreshes while the new program migrates its tables', async () => {
      const email = await addUser(deployment)
      await addEvent(deployment)
      const names = await migrationNames(deployment)
      failed = 0
      let rounds = 0
      let isOver = false
      const load = Array.from({ length: CLIENTS }, async () => {
        const early = await logIn(previous, email)
        for (; !isOver; rounds++) {
          const { refreshToken } = await useSession(previous, await logIn(previous, email))
          assert.equal((await post(previous, '/logout', refreshToken)).status, 200)
        }
        await useSession(previous, early)
      })
      await until(async () => rounds > 10)
      const { exit, output } = migrate(deployment)
      assert.deepEqual(await exit, { code: 0, signal: null }, output())
      const soFar = rounds
      await until(async () => rounds > soFar + 10)
      isOver = true
      await Promise.all(load)
      assert.ok(failed < CLIENTS, `${failed} requests failed`)
      const added = (await migrationNames(deployment)).slice(names.length)
      assert.ok(added.length > 0, 'the previous release has fewer migrations')
      next = await deployment.start()
    })

    for (const [name, service] of [
      ['the previous release', () => previous],
      ['the new one beside it', () => next],
    ] as const) {
      test(`every operation works at ${name}`, async () => {
        const at = service()
        const email = await addUser(deployment)
        const first = await useSession(at, await logIn(at, email))
        const second = await useSession(at, await logIn(at, email))
        const { json } = await get(at, '/session', bearer(first.accessToken))
        const ended = await at.call({
          method: 'DELETE',
          path: `${AUTH}/sessions/${json.data.session.id}`,
          headers: bearer(second.accessToken),
        })
        assert.equal(ended.status, 200)
        assert.equal((await post(at, '/refresh', first.refreshToken)).status, 401)
        assert.equal((await post(at, '/logout', second.refreshToken)).status, 200)
        assert.equal((await get(at, '/session', bearer(second.accessToken))).status, 401)
        assert.equal((await at.login('unknown@example.com')).status, 401)
        const wrong = []
        for (let i = 0; i < 7; i++) wrong.push((await at.login(email, 'wrong')).status)
        assert.deepEqual(wrong, [401, 401, 401, 401, 401, 429, 429])
      })
    }

    test('a session that one of them opens is used, refreshed and ended at the other', async () => {
      for (const [one, other] of [
        [previous, next],
        [next, previous],
      ] as const) {
        const email = await addUser(deployment)
        let session = await logIn(one, email)
        for (const service of [other, one, other]) session = await useSession(service, session)
        assert.equal((await post(other, '/logout', session.refreshToken)).status, 200)
        assert.equal((await get(one, '/session', bearer(session.accessToken))).status, 401)
      }
    })

    test('all other sessions end at both, and the kept one and later ones stay live', async () => {
      const email = await addUser(deployment)
      for (const [one, other] of [
        [previous, next],
        [next, previous],
        [previous, next],
      ] as const) {
        const ended = [await logIn(one, email), await logIn(other, email)]
        const kept = await logIn(other, email)
        const headers = bearer(kept.accessToken)
        const answer = await call(one, { method: 'DELETE', path: `${AUTH}/sessions`, headers })
        assert.equal(answer.status, 200, answer.text)
        const later = await logIn(other, email)
        for (const service of [one, other]) {
          for (const { accessToken } of ended) {
            assert.equal((await get(service, '/session', bearer(accessToken))).status, 401)
          }
        }
        await useSession(one, await useSession(other, kept))
        await useSession(one, await useSession(other, later))
      }
    })

    test('failures at both are counted together', async () => {
      const email = await addUser(deployment)
      const statuses = []
      for (const service of [previous, next, previous, next, previous, next, previous]) {
        statuses.push((await service.login(email, 'wrong')).status)
      }
      assert.deepEqual(statuses, [401, 401, 401, 401, 401, 429, 429])
    })

    test('both note the last login of a user and the failures since', async () => {
      const email = await addUser(deployment)
      const lastLogin = async ({ accessToken }: { accessToken: string }) =>
        (await get(next, '/session', bearer(accessToken))).json.data.session.lastLogin
      assert.equal(await lastLogin(await logIn(previous, email)), null)
      for (const service of [next, previous]) {
        await previous.login(email, 'wrong')
        await next.login(email, 'wrong')
        assert.equal((await lastLogin(await logIn(service, email)))?.failuresSince, 2)
      }
    })

    test('a refresh at one of them is repeated at the other, with the same id or without one', async () => {
      for (const [one, other] of [
        [previous, next],
        [next, previous],
      ] as const) {
        for (const headers of [{ 'X-Request-ID': randomUUID() }, {}]) {
          const { refreshToken } = await logIn(one, await addUser(deployment))
          const request = { path: `${AUTH}/refresh`, headers, body: { refreshToken } }
          const successors = new Set<string>()
          for (const service of [one, other, one]) {
            const { status, text, json } = await call(service, request)
            assert.equal(status, 200, text)
            successors.add(json.data.refreshToken)
          }
          assert.equal(successors.size, 1)
        }
      }
    })

    test('audit events of both are kept, and cannot be changed', async () => {
      const { rows } = deployment.database
      await addEvent(deployment)
      const events = await rows('select action from audit_events where before is null order by id')
      const started = ['key.found', 'key.found', 'service.configured']
      const recorded = events.map(({ action }) => String(action))
      assert.deepEqual(
        recorded.filter(action => started.includes(action)),
        started,
      )
      assert.equal(recorded.length, 2 + started.length)
      for (const change of [
        "update audit_events set actor = 'other'",
        'delete from audit_events',
      ]) {
        await assert.rejects(rows(change), /append-only/)
      }
    })

    if (engine === 'sqlite') {
      test('older versions of SQLite find no fault in the migrated file', async t => {
        const { config, rows } = deployment.database
        assert.ok(config.engine === 'sqlite')
        const database = new DatabaseSync(config.file)
        t.after(() => database.close())
        // As in SQLite 3.40: null is no valid JSON.
        database.function('json_valid', { deterministic: true }, value => (value === null ? 0 : 1))
        assert.equal(database.prepare('select json_valid(null) as is_valid').get()?.is_valid, 0)
        const found = database.prepare('pragma integrity_check').all()
        assert.deepEqual({ ...found[0] }, { integrity_check: 'ok' })

        const { database: created } = await openTestStore('sqlite')
        const schema = 'select type, name, sql from sqlite_schema order by name'
        assert.deepEqual(await rows(schema), await created.rows(schema))
      })
    }

    test('purges the new tables', async () => {
      next.kill('SIGTERM')
      await next.exit
      const { accessToken } = await logIn(previous, await addUser(deployment))
      const { json } = await get(previous, '/session', bearer(accessToken))
      const isThis = `id = '${json.data.session.id}'`
      const { rows } = deployment.database
      assert.equal((await rows(`select id from sessions where ${isThis}`)).length, 1)
      await rows(`update sessions set ended_at = '2020-01-01T00:00:00.000Z' where ${isThis}`)
      await until(async () => (await rows(`select id from sessions where ${isThis}`)).length === 0)
    })

    test('logs no error of the database, except that it was slow', () => {
      const errors = previous.lines().filter(({ level }) => level === 'error')
      const others = errors.filter(({ err }) => !/time ?out|is locked/.test(err?.message ?? ''))
      assert.deepEqual(others, [])
    })

    test('does not start again on the new tables, and changes nothing', async () => {
      const names = await migrationNames(deployment)
      const again = run(deployment.env, { command: servePrevious() })
      assert.deepEqual(await again.exit, { code: 1, signal: null })
      assert.match(again.output(), new RegExp(names.at(-1) ?? ''))
      assert.deepEqual(await migrationNames(deployment), names)
      await logIn(previous, await addUser(deployment))
    })
  })
}

test('logins go on while a migration waits for a long transaction', async t => {
  const deployment = await createDeployment('postgres', {}, undefined, false)
  t.after(() => deployment.remove())
  const { config, rows } = deployment.database
  assert.ok(config.engine === 'postgres')
  const previous = await deployment.start({}, { command: servePrevious() })
  const email = await addUser(deployment)
  // Like a backup, which reads for minutes.
  const backup = new pg.Client({ connectionString: config.url, application_name: 'nightly-backup' })
  await backup.connect()
  await backup.query('begin')
  const [{ pid }] = (await backup.query('select pg_backend_pid() as pid')).rows
  await backup.query('select from users, sessions')

  let logins = 0
  let isOver = false
  const load = Array.from({ length: CLIENTS }, async () => {
    while (!isOver) if ((await previous.login(email)).status === 200) logins++
  })
  const { exit, output } = migrate(deployment)
  const waiting = `select from pg_locks where not granted and mode = 'AccessExclusiveLock'
    and database = (select oid from pg_database where datname = current_database())`
  for (let times = 0; times < 2; times++) {
    await until(async () => (await rows(waiting)).length > 0)
    const soFar = logins
    await until(async () => logins > soFar + 20)
  }
  const named = `pid ${pid} (nightly-backup, idle in transaction for `
  await until(async () => output().includes(named))
  await backup.query('commit')
  await backup.end()
  assert.deepEqual(await exit, { code: 0, signal: null }, output())
  isOver = true
  await Promise.all(load)
})
