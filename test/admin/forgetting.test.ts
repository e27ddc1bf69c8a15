// A deleted user leaves no byte of the email, name or addresses in the database; and a person can get what is stored.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { AuditEvent } from '../../src/domain/audit.ts'
import type { StoredToken } from '../../src/domain/session.ts'
import { startAdminService } from '../support/admin-service.ts'
import { newUserWithApp } from '../support/authenticator.ts'
import { createCli, setUpCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { own } from '../support/own.ts'
import { createAddresses, LOGIN, PASSWORD } from '../support/service.ts'
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

    const eventsOf = async (target: string): Promise<AuditEvent[]> =>
      JSON.parse(await command('audit', 'list', '--target', target, '--json'))

    /** Leaves traces of a person in every table. Returns the texts that name the person, too. */
    async function useAccount(mark: string, ip: string) {
      const [first, email] = [`${mark}@example.com`, `${mark}.lee@example.com`]
      const userAgent = `Browser of ${mark}`
      const login = (address: string, password: string) =>
        service.call({
          body: { email: address, password },
          headers: { 'User-Agent': userAgent, 'Sec-Fetch-Site': 'same-origin' },
          from: ip,
        })
      const failAndClear = async (...scope: string[]) => {
        assert.equal((await login(first, 'wrong')).status, 401)
        await command('throttle', 'clear', ...scope)
      }
      await failAndClear('--email', first) // before it has a user
      const id = await service.addUser(first, { name: `Ann ${mark}` })
      await failAndClear('--email', first)
      await command('users', 'set', first, '--email', email, '--name', `Lee ${mark}`)
      for (let i = 0; i < 2; i++) assert.equal((await login(email, PASSWORD)).status, 200)
      const { json } = await login(email, PASSWORD)
      const body = { refreshToken: json.data.refreshToken }
      const path = LOGIN.replace('login', 'refresh')
      assert.equal((await service.call({ path, body, from: ip })).status, 200)
      const { sessions } = (await service.admin('GET', `/users/${email}/sessions`)).json.data
      const sessionId = sessions[0]?.id ?? ''
      await command('sessions', 'end', sessionId)
      assert.equal((await login(email, 'wrong')).status, 401)
      const traces = [email, first, `Ann ${mark}`, `Lee ${mark}`, userAgent, ip]
      return { email, first, userAgent, id, sessionId, traces }
    }

    test('nothing of a deleted user is in the database, and its events have one pseudonym: by a command, and by the admin API', async () => {
      const people = [
        await useAccount('command-trace', '127.77.1.91'),
        await useAccount('api-trace', '127.77.1.92'),
      ] as const
      const traces = people.flatMap(person => person.traces)
      const text = await storedText(service.database)
      for (const trace of traces) assert.ok(text.includes(trace), `${trace} is there before`)
      const before = await Promise.all(people.map(({ email }) => eventsOf(email)))
      await command('users', 'delete', people[0].email, '--yes')
      assert.equal((await service.admin('DELETE', `/users/${people[1].email}`)).status, 200)
      // The log names the person, so that the deletion can be repeated after a restore (docs/installing.md).
      const [line] = service.logged().filter(({ method }) => method === 'DELETE')
      assert.deepEqual([line?.event, line?.target], ['admin.request', people[1].email])
      await command('database', 'purge')
      const left = await storedText(service.database)
      for (const trace of [...traces, '-trace']) assert.ok(!left.includes(trace), trace)

      const audit = JSON.stringify(await service.database.rows('select * from audit_events'))
      const pseudonyms = new Set(audit.match(/deleted-user-[0-9a-f]{16}(?=")/g))
      assert.equal(pseudonyms.size, 2)
      const cleared = (failures: number) => [
        ...['throttle.cleared', { failures, blockedUntil: null }],
        { failures: 0, blockedUntil: null },
      ]
      for (const [i, pseudonym] of [...pseudonyms].entries()) {
        const events = (await eventsOf(pseudonym)).reverse()
        assert.deepEqual(
          events.map(({ action, before, after }) => [action, before, after]),
          [
            cleared(1),
            ['user.added', null, { role: 'user' }],
            cleared(1),
            ['user.changed', {}, {}],
            ['session.ended', null, null],
            ['user.deleted', { role: 'user' }, null],
          ],
        )
        for (const known of [people[i]?.id, people[i]?.sessionId]) {
          assert.ok(known && !audit.includes(known), known)
        }
        // Nothing else of an event changes.
        assert.equal(before[i]?.length, 4)
        for (const { id, at, by, action } of before[i] ?? []) {
          const kept = events.find(event => event.id === id)
          assert.partialDeepStrictEqual({ ...kept }, { at, by, action })
        }
      }
    })

    test('events of an address, and of an email that another user has now, stay when a user is deleted', async () => {
      const ip = '127.77.1.94'
      const { email, first } = await useAccount('shared', ip)
      await service.call({ body: { email: first, password: 'wrong' }, from: ip })
      for (const scope of [
        ['--client', ip],
        ['--email', first],
      ]) {
        await command('throttle', 'clear', ...scope)
      }
      await service.addUser(first, { name: 'Somebody Else' })
      const shared = async () => {
        const events = [...(await eventsOf(ip)), ...(await eventsOf(first))]
        return events.filter(({ targetId }) => targetId === null)
      }
      const before = await shared()
      // One was recorded before the deleted user had the email.
      assert.deepEqual(
        before.map(({ target }) => target),
        [ip, first, first],
      )
      await command('users', 'delete', email, '--yes')
      assert.deepEqual(await shared(), before)
    })

    test('a person gets everything that is stored, in an answer that is made piece by piece', async t => {
      const ip = '127.77.1.93'
      const { id, email, first, userAgent } = await useAccount('exported', ip)
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

      const made = t.mock.method(JSON, 'stringify').mock
      const { status, json } = await service.admin('GET', `/users/${email}/data`)
      const lengths = made.calls.map(({ result }) => result?.length ?? 0)
      assert.ok(Math.max(...lengths) < 100_000, `${Math.max(...lengths)} characters at once`)
      made.restore()
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

    test('a deleted user leaves no second factor and no recovery code', async () => {
      const people = [await newUserWithApp(service, createAddresses(), null)]
      people.push(await newUserWithApp(service, createAddresses(), null))
      const rows = async () => [
        ...(await service.database.rows('select * from second_factors')),
        ...(await service.database.rows('select * from recovery_codes')),
      ]
      assert.equal((await rows()).length, 22)
      await command('users', 'delete', people[0]?.email ?? '', '--yes')
      assert.equal((await service.admin('DELETE', `/users/${people[1]?.email}`)).status, 200)
      assert.deepEqual(await rows(), [])
    })

    test('a person gets the second factors and the uses of recovery codes, without what proves them', async () => {
      const { email, app, recoveryCodes } = await newUserWithApp(service, createAddresses(), null)
      const [otp = ''] = recoveryCodes
      assert.equal((await service.call({ body: { email, password: PASSWORD, otp } })).status, 200)
      const text = await command('users', 'export-data', email)
      const exported = JSON.parse(text)
      const { json } = await service.admin('GET', `/users/${email}/data`)
      const { secondFactors, recoveryCodes: codes } = JSON.parse(JSON.stringify(json)).data
      assert.deepEqual([exported.secondFactors, exported.recoveryCodes], [secondFactors, codes])
      const [{ id, createdAt, ...factor }, ...others] = secondFactors
      assert.ok(id && createdAt && others.length === 0)
      const expected = { kind: 'totp', name: null, credentialId: null, lastUsedAt: null }
      assert.deepEqual(factor, expected)
      const [{ usedAt }, ...good] = codes
      assert.ok(usedAt)
      assert.deepEqual(good, Array(9).fill({ usedAt: null }))
      const stored = await service.database.rows(
        'select secret from second_factors union all select digest from recovery_codes',
      )
      assert.equal(stored.length, 11)
      for (const secret of [app.secret, otp, ...stored.map(row => String(row.secret))]) {
        assert.ok(!text.includes(secret), secret)
      }
      assert.equal(exported.sessions.at(-1)?.amr.length, 3)
      await command('users', 'delete', email, '--yes')
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
