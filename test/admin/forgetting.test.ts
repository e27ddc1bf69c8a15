// A deleted user leaves no byte of the email, name or addresses in the database; and a person can get what is stored.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { AuditEvent } from '../../src/domain/audit.ts'
import type { StoredToken } from '../../src/domain/session.ts'
import { startAdminService } from '../support/admin-service.ts'
import { createCli, setUpCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { own } from '../support/own.ts'
import { LOGIN, PASSWORD } from '../support/service.ts'
import { storedText } from '../support/stored-text.ts'

const MANY = 2_500
const LONG_AGO = new Date(Date.now() - 90 * 86_400_000)

for (const engine of ENGINES_BY_RUN) {
  describe(`forgetting and exporting on ${engine}`, async () => {
    const service = await own(startAdminService(engine))
    const cli = await own(createCli(service.database))

    const command = async (...args: string[]) => {
      const { code, stdout, stderr } = await cli.run(args)
      assert.equal(code, 0, stderr)
      return stdout
    }

    /** Leaves traces of a person in every table. Returns the texts that name the person, the current email first. */
    async function useAccount(mark: string, ip: string) {
      const [first, email] = [`${mark}@example.com`, `${mark}.lee@example.com`]
      const userAgent = `Browser of ${mark}`
      await service.addUser(first, { name: `Ann ${mark}` })
      const login = (address: string, password: string) =>
        service.call({
          body: { email: address, password },
          headers: { 'User-Agent': userAgent, 'Sec-Fetch-Site': 'same-origin' },
          from: ip,
        })
      assert.equal((await login(first, 'wrong')).status, 401)
      await command('throttle', 'clear', '--email', first)
      assert.equal((await login(first, 'wrong')).status, 401)
      await command('throttle', 'clear', '--client', ip)
      await command('users', 'set', first, '--email', email, '--name', `Lee ${mark}`)
      for (let i = 0; i < 2; i++) assert.equal((await login(email, PASSWORD)).status, 200)
      const { json } = await login(email, PASSWORD)
      const body = { refreshToken: json.data.refreshToken }
      const path = LOGIN.replace('login', 'refresh')
      assert.equal((await service.call({ path, body, from: ip })).status, 200)
      const { sessions } = (await service.admin('GET', `/users/${email}/sessions`)).json.data
      await command('sessions', 'end', sessions[0]?.id ?? '')
      assert.equal((await login(email, 'wrong')).status, 401)
      return [email, first, `Ann ${mark}`, `Lee ${mark}`, userAgent, ip]
    }

    test('nothing of a deleted user is in the database: by a command, and by the admin API', async () => {
      const traces = [
        ...(await useAccount('command-trace', '127.77.1.91')),
        ...(await useAccount('api-trace', '127.77.1.92')),
      ]
      const text = await storedText(service.database)
      for (const trace of traces) assert.ok(text.includes(trace), `${trace} is there before`)
      await command('users', 'delete', 'command-trace.lee@example.com', '--yes')
      const deleted = await service.admin('DELETE', '/users/api-trace.lee@example.com')
      assert.equal(deleted.status, 200)
      // The log names the person, so that the deletion can be repeated after a restore (docs/installing.md).
      const [line] = service.logged().filter(({ method }) => method === 'DELETE')
      assert.partialDeepStrictEqual(
        { ...line },
        { event: 'admin.request', target: 'api-trace.lee@example.com' },
      )
      await command('database', 'purge')
      const left = await storedText(service.database)
      for (const trace of [...traces, '-trace']) assert.ok(!left.includes(trace), trace)
    })

    test('a person gets everything that is stored', async () => {
      const ip = '127.77.1.93'
      const [email = '', first = '', , , userAgent] = await useAccount('exported', ip)
      const id = (await service.store.users.findByEmail(email))?.id ?? ''
      await fillSessions(service.database, id, MANY, service.now(), { endedAt: service.now() })
      // Another user that gets the earlier email. Its events are not those of this person.
      await service.addUser(first, { name: 'Somebody Else' })
      const text = await command('users', 'export-data', email)
      const exported = JSON.parse(text)
      assert.equal(exported.user.email, email)
      assert.equal(exported.lastLogin.ip, ip)
      assert.equal(exported.sessions.length, MANY + 3)
      assert.ok(exported.sessions.some((session: { ip: string }) => session.ip === ip))
      // Those of 3 logins, one of which was refreshed.
      const tokens: StoredToken[] = exported.refreshTokens
      const stored = await service.database.rows(
        `select id from refresh_tokens where user_id = '${id}' order by session_id, created_at, id`,
      )
      assert.deepEqual(
        tokens.map(token => token.id),
        stored.map(row => row.id),
      )
      assert.equal(tokens.length, MANY + 4)
      assert.equal(tokens.filter(({ revokedAt }) => revokedAt !== null).length, 2)
      assert.equal(exported.devices[0].userAgent, userAgent)
      assert.equal(exported.throttle.scopes[0].failures, 1)
      const actions = exported.auditEvents.map(({ action }: { action: string }) => action)
      assert.deepEqual(actions, [
        ...['user.exported', 'session.ended'],
        ...['user.changed', 'throttle.cleared', 'user.added'],
      ])
      for (const secret of ['$2b$', 'assword', 'Somebody Else', '"by"']) {
        assert.ok(!text.includes(secret), secret)
      }

      const { status, json } = await service.admin('GET', `/users/${email}/data`)
      assert.equal(status, 200)
      const { data } = JSON.parse(JSON.stringify(json))
      assert.deepEqual({ ...data.user, updatedAt: '' }, { ...exported.user, updatedAt: '' })
      assert.deepEqual(data.sessions, exported.sessions)
      // This one is an event too.
      assert.deepEqual(data.auditEvents.slice(1), exported.auditEvents)
      const logged = service.logged().filter(({ route }) => String(route).endsWith('/data'))
      assert.deepEqual(
        logged.map(({ target }) => target),
        [email],
      )
    })
  })

  test(`a purge by hand is recorded with what it removed, unless that is nothing, on ${engine}`, async () => {
    const { database, run } = await setUpCli(engine)
    const id = randomUUID()
    await database.rows(`insert into users (id, email, password_hash, name)
      values ('${id}', 'ann@example.com', '', '')`)
    await fillSessions(database, id, 3, LONG_AGO)
    for (let i = 0; i < 2; i++) assert.equal((await run(['database', 'purge'])).code, 0)
    const { stdout } = await run(['audit', 'list', '--target', 'database', '--json'])
    const events: AuditEvent[] = JSON.parse(stdout)
    assert.deepEqual(
      events.map(({ action, after }) => [action, after?.sessions, after?.refreshTokens]),
      [['database.purged', 3, 3]],
    )
  })
}
