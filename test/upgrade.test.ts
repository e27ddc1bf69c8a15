// The previous release serves while the tables are migrated, and after it, beside the new one. It is kept as a
// file, because a clone may lack its commit; docs/decisions/0040 says how the file is renewed:
//   git archive 730ae5e launch.cjs package.json src ':!src/**/*.test.ts' | gzip -9n > test/upgrade/previous-release.tar.gz
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { rm, symlink } from 'node:fs/promises'
import type { OutgoingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import bcrypt from 'bcrypt'
import pg from 'pg'
import { ENGINES } from './engines.ts'
import {
  createDeployment,
  type Deployment,
  PROJECT,
  run,
  SERVE,
  type ServiceProcess,
  until,
} from './process.ts'
import { type Answer, type Call, PASSWORD, TEST_COST } from './service.ts'
import { AUTH, bearer, cookie, cookieIn, SESSION_COOKIE } from './session-client.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

const FILE = new URL('upgrade/previous-release.tar.gz', import.meta.url).pathname
const FAST_MINUTE = new URL('upgrade/fast-minute.ts', import.meta.url).href

let release: string
before(async () => {
  release = await makeTemporaryFolder('login-release-')
  await promisify(execFile)('tar', ['-xzf', FILE, '-C', release])
  await symlink(join(PROJECT, 'node_modules'), join(release, 'node_modules'))
})
after(() => rm(release, { recursive: true }))

/** A command of the previous release instead of this one. */
const ofRelease = (command: string[]) =>
  command.map(part => part.replace(join(PROJECT, 'launch.cjs'), join(release, 'launch.cjs')))

/** By SQL: the tables are those of another version. */
async function addUser({ database }: Deployment): Promise<string> {
  const email = `${randomUUID()}@example.com`
  const hash = await bcrypt.hash(PASSWORD, TEST_COST)
  await database.rows(
    `insert into users (id, email, password_hash, name) values ('${randomUUID()}', '${email}', '${hash}', 'Test')`,
  )
  return email
}

/**
 * Repeats a request that failed, as a client would: on a busy machine an operation of the database may miss its
 * time limit.
 */
async function call(service: ServiceProcess, request: Call): Promise<Answer> {
  const answer = await service.call(request)
  return answer.status >= 500 ? call(service, request) : answer
}

function migrate({ env }: Deployment) {
  return run(env, { command: [...SERVE.slice(0, -1), 'database', 'migrate'] })
}

for (const engine of ENGINES) {
  describe(`the previous release on ${engine}`, () => {
    let deployment: Deployment
    let previous: ServiceProcess
    let next: ServiceProcess
    before(async () => {
      deployment = await createDeployment(engine, {}, undefined, false)
      const env = { NODE_OPTIONS: `--import=${FAST_MINUTE}` }
      previous = await deployment.start(env, { command: ofRelease(SERVE) })
    })
    after(() => deployment.remove())

    const migrationNames = async () => {
      const rows = await deployment.database.rows('select name from kysely_migration order by name')
      return rows.map(({ name }) => String(name))
    }

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
      const names = await migrationNames()
      let rounds = 0
      let isOver = false
      const load = Array.from({ length: 4 }, async () => {
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
      const added = (await migrationNames()).slice(names.length)
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

    test('failures at both are counted together', async () => {
      const email = await addUser(deployment)
      const statuses = []
      for (const service of [previous, next, previous, next, previous, next, previous]) {
        statuses.push((await service.login(email, 'wrong')).status)
      }
      assert.deepEqual(statuses, [401, 401, 401, 401, 401, 429, 429])
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
      const others = errors.filter(({ err }) => !/time ?out/.test(err?.message ?? ''))
      assert.deepEqual(others, [])
    })

    test('does not start again on the new tables, and changes nothing', async () => {
      const names = await migrationNames()
      const again = run(deployment.env, { command: ofRelease(SERVE) })
      assert.deepEqual(await again.exit, { code: 1, signal: null })
      assert.match(again.output(), new RegExp(names.at(-1) ?? ''))
      assert.deepEqual(await migrationNames(), names)
      await logIn(previous, await addUser(deployment))
    })
  })
}

test('logins go on while a migration waits for a long transaction', async t => {
  const deployment = await createDeployment('postgres', {}, undefined, false)
  t.after(() => deployment.remove())
  const { config, rows } = deployment.database
  assert.ok(config.engine === 'postgres')
  const previous = await deployment.start({}, { command: ofRelease(SERVE) })
  const email = await addUser(deployment)
  // Like a backup, which reads for minutes.
  const backup = new pg.Client({ connectionString: config.url })
  await backup.connect()
  await backup.query('begin')
  await backup.query('select from users, sessions')

  let logins = 0
  let isOver = false
  const load = Array.from({ length: 4 }, async () => {
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
  await backup.query('commit')
  await backup.end()
  assert.deepEqual(await exit, { code: 0, signal: null }, output())
  isOver = true
  await Promise.all(load)
})
