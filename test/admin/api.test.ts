// The admin API does what its routes say, on both engines, and records every change.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { type AdminService, startAdminService } from '../support/admin-service.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { LOGIN, PASSWORD, TEST_COST } from '../support/service.ts'

const BY = { kind: 'token', name: 'registration', host: '127.0.0.1' }

for (const engine of ENGINES_BY_RUN) {
  describe(`admin API on ${engine}`, () => {
    let service: AdminService
    let admin: AdminService['admin']
    before(async () => {
      service = await startAdminService(engine)
      admin = service.admin
    })
    after(async () => {
      await service.stop()
      const faults = service.logged().filter(({ level }) => level === 'error' || level === 'fatal')
      assert.deepEqual(faults, [])
      for (const secret of [service.write, service.read, PASSWORD, '$2b$']) {
        assert.ok(!service.logText().includes(secret))
      }
    })

    const lastEvent = async (target: string) => {
      const { json } = await admin('GET', `/audit?target=${encodeURIComponent(target)}&limit=1`)
      return json.data.events[0]
    }

    test('a user is added once, and can log in', async () => {
      const body = { email: ' Ann@Example.com', name: 'Ann', password: PASSWORD }
      const added = await admin('POST', '/users', body)
      assert.equal(added.status, 201)
      const user = added.json.data
      assert.equal(user.email, 'ann@example.com')
      assert.equal(user.role, 'user')
      assert.ok(!added.text.includes('$2'))
      assert.equal((await service.login('ann@example.com', PASSWORD)).status, 200)

      const { passwordHash = '' } = (await service.store.users.findByEmail('ann@example.com')) ?? {}
      const answers: string[] = []
      for (const secret of [
        { password: PASSWORD },
        { password: 'another password' },
        { passwordHash },
        { passwordHash: passwordHash.replace(/.$/, last => (last === '.' ? 'O' : '.')) },
      ]) {
        const taken = await admin('POST', '/users', { ...body, password: undefined, ...secret })
        assert.equal(taken.status, 409)
        assert.equal(taken.json.error.code, 'EMAIL_TAKEN')
        answers.push(taken.text)
      }
      assert.equal(new Set(answers).size, 1, 'no answer tells whether the password is right')
      assert.equal((await service.login('ann@example.com', PASSWORD)).status, 200)
      const event = await lastEvent('ann@example.com')
      assert.equal(event?.action, 'user.added')
      assert.equal(event?.targetId, user.id)
      assert.deepEqual(event?.by, BY)
    })

    test('a user is added with a hash of another system, of each prefix', async () => {
      const hash = await bcrypt.hash(PASSWORD, TEST_COST)
      for (const prefix of ['$2a', '$2b', '$2y']) {
        const email = `hash${prefix.slice(1)}@example.com`
        const passwordHash = hash.replace('$2b', prefix)
        const body = { email, name: 'Bob', role: 'editor', passwordHash }
        assert.equal((await admin('POST', '/users', body)).status, 201)
        assert.equal((await service.login(email, PASSWORD)).status, 200)
      }
      for (const passwordHash of [
        PASSWORD,
        hash.slice(0, -1),
        hash.replace('$04$', '$03$'),
        hash.replace('$04$', '$05$'),
        hash.replace('$2b', '$2x'),
      ]) {
        const body = { email: 'never@example.com', name: 'Never', passwordHash }
        const { status, json } = await admin('POST', '/users', body)
        assert.equal(status, 400, passwordHash)
        assert.deepEqual(json.error.fields, ['passwordHash'])
      }
    })

    test('a user is named by its email, percent-encoded or not, in any case, or by its id', async () => {
      const email = "o'neil+a/b%c#d?e@example.com"
      const body = { email, name: 'Odd', password: PASSWORD }
      const { id } = (await admin('POST', '/users', body)).json.data
      for (const name of [
        encodeURIComponent(email),
        encodeURIComponent(email.toUpperCase()),
        id,
        id.toUpperCase(),
      ]) {
        const answer = await admin('PUT', `/users/${name}/lock`)
        assert.equal(answer.status, 200, name)
      }
      for (const name of [
        encodeURIComponent(encodeURIComponent(email)),
        'nothing',
        'a@b@c',
        '%00',
        'ann%00@example.com',
        '%EF%BF%BD@example.com',
        '00000000-0000-4000-8000-000000000000',
        `${'a'.repeat(250)}@example.com`,
      ]) {
        const answer = await admin('PUT', `/users/${name}/lock`)
        assert.equal(answer.status, 404, name)
        assert.equal(answer.json.error.code, 'NOT_FOUND')
      }
      assert.equal((await admin('DELETE', `/users/${id}`)).status, 200)
      assert.equal((await admin('DELETE', `/users/${id}`)).status, 404)
    })

    test('an email of 254 characters, each of three bytes, names its user', async () => {
      const email = `${'語'.repeat(242)}@example.com`
      const body = { email, name: 'Long', password: PASSWORD }
      assert.equal((await admin('POST', '/users', body)).status, 201)
      assert.equal((await admin('DELETE', `/users/${encodeURIComponent(email)}`)).status, 200)
    })

    test('a weak password is refused unless the administrator allows it, and that is recorded', async () => {
      const email = 'weak@example.com'
      const add = (secret: object) => admin('POST', '/users', { email, name: 'Weak', ...secret })
      const set = (secret: object) => admin('PUT', `/users/${email}/password`, secret)
      const refused = async (send: typeof add, secret: object, problem: RegExp) => {
        const { status, json } = await send(secret)
        const { code, fields, reason, message } = json.error
        assert.deepEqual([status, code, fields], [400, 'INVALID_REQUEST', ['password']])
        assert.match(`${reason}: ${message}`, problem)
      }
      await refused(
        add,
        { password: 'sunshine' },
        /^too_common: .*, or send "allowWeak": true with a "write" token\.$/,
      )
      const added = await add({ password: 'sunshine', allowWeak: true })
      assert.equal(added.status, 201)
      assert.deepEqual((await lastEvent(email))?.after, {
        name: 'Weak',
        role: 'user',
        allowWeak: true,
      })
      assert.equal((await service.login(email, 'sunshine')).status, 200)

      await refused(set, { password: 'Weak@Example.com' }, /^personal: /)
      for (const allowWeak of [false, true]) {
        await refused(set, { password: 'seven77', allowWeak }, /fewer than 8 .* longer one\.$/)
      }
      assert.equal((await set({ password: 'password', allowWeak: true })).status, 200)
      const event = await lastEvent(email)
      assert.deepEqual([event?.action, event?.after], ['password.set', { allowWeak: true }])
      assert.equal((await service.login(email, 'password')).status, 200)
      // It breaks no rule, so there was nothing to overrule.
      assert.equal((await set({ password: PASSWORD, allowWeak: true })).status, 200)
      assert.equal((await lastEvent(email))?.after, null)
    })

    test('a new password ends all sessions', async () => {
      const email = await service.newUser()
      const { accessToken } = (await service.login(email, PASSWORD)).json.data
      const password = 'another good password'
      const path = `/users/${email}/password`
      assert.equal((await admin('PUT', path, { password })).status, 200)
      assert.equal((await admin('PUT', path, { password })).status, 200)
      const headers = { Authorization: `Bearer ${accessToken}` }
      const session = { method: 'GET', path: LOGIN.replace('login', 'session'), headers }
      assert.equal((await service.call(session)).status, 401)
      assert.equal((await service.login(email, PASSWORD)).status, 401)
      assert.equal((await service.login(email, password)).status, 200)
      const event = await lastEvent(email)
      assert.equal(event?.action, 'password.set')
      assert.doesNotMatch(JSON.stringify(event), /\$2b|password"/i)
    })

    test('a user is deactivated and activated, locked and unlocked', async () => {
      const email = await service.newUser()
      const path = `/users/${email}`
      const inactive = await admin('PATCH', path, { isActive: false })
      assert.equal(inactive.json.data.user.isActive, false)
      assert.equal((await service.login(email, PASSWORD)).status, 401)
      const active = await admin('PATCH', path, { isActive: true })
      assert.equal(active.json.data.user.isActive, true)

      const until = '2099-01-31T12:00:00.000Z'
      assert.equal((await admin('PUT', `${path}/lock`, { until })).status, 200)
      assert.equal((await service.login(email, PASSWORD)).status, 401)
      assert.equal((await admin('PUT', `${path}/lock`, { until: '2020-01-01' })).status, 400)
      const inUtc = await admin('PUT', `${path}/lock`, { until: '2990-01-31T12:00' })
      assert.deepEqual(inUtc.json.data, { until: '2990-01-31T12:00:00.000Z' })
      const before = service.now().getTime()
      const forHours = await admin('PUT', `${path}/lock`, { until: '2h' })
      const end = new Date(String(forHours.json.data.until)).getTime()
      assert.ok(end >= before + 7_200_000 && end <= service.now().getTime() + 7_200_000)
      assert.equal((await admin('DELETE', `${path}/lock`)).status, 200)
      assert.equal((await service.login(email, PASSWORD)).status, 200)
      assert.equal((await lastEvent(email))?.action, 'user.unlocked')
    })

    test('a user gets another email, name and role, and keeps its sessions', async () => {
      const email = await service.newUser()
      const { accessToken } = (await service.login(email, PASSWORD)).json.data
      const user = (await admin('GET', `/users/${email}`)).json.data
      const change = { email: 'Moved@example.com', name: 'Moved', role: 'editor', isActive: true }
      const changed = await admin('PATCH', `/users/${email}`, change)
      assert.equal(changed.status, 200)
      const { id, email: newEmail, name, role } = changed.json.data.user
      assert.deepEqual(
        [id, newEmail, name, role],
        [user.id, 'moved@example.com', 'Moved', 'editor'],
      )
      // A repetition by the id changes nothing; the old email names no user any more.
      assert.equal((await admin('PATCH', `/users/${id}`, change)).status, 200)
      assert.equal((await admin('PATCH', `/users/${email}`, change)).status, 404)
      const headers = { Authorization: `Bearer ${accessToken}` }
      const session = { method: 'GET', path: LOGIN.replace('login', 'session'), headers }
      assert.equal((await service.call(session)).json.data.user.role, 'editor')
      const taken = await admin('PATCH', `/users/${id}`, { email: 'ann@example.com' })
      assert.equal(taken.status, 409)
      const { events } = (await admin('GET', `/audit?target=${newEmail}`)).json.data
      assert.equal(events.filter(({ action }) => action === 'user.changed').length, 1)
    })

    test('users are listed by pages and filters, without their hashes', async () => {
      // Inserted by SQL, in a form that no login looks up.
      const { id } = (await admin('GET', '/users?search=ann%40')).json.data.users[0] ?? {}
      await service.database.rows(`insert into users (id, email, password_hash, name, role, created_at, updated_at)
        select '00000000-0000-4000-8000-00000000000a', ' Odd Form+@x', password_hash, name, role, created_at,
          updated_at from users where id = '${id}'`)
      const seen: string[] = []
      let after = ''
      for (;;) {
        const answer = await admin('GET', `/users?limit=1&after=${encodeURIComponent(after)}`)
        assert.ok(!/\$2[aby]|hash/i.test(answer.text.replaceAll('hash2', '')), answer.text)
        const { users, next } = answer.json.data
        seen.push(...users.map(({ email }) => email))
        if (next === null) break
        after = String(next)
      }
      assert.ok(seen.includes(' Odd Form+@x'))
      const odd = await admin('GET', '/users/00000000-0000-4000-8000-00000000000a')
      assert.equal(odd.json.data.verdict.kind, 'unreachable-email')
      assert.equal(new Set(seen).size, seen.length)
      assert.equal(seen.length, await service.store.users.count())
      assert.equal(
        (await admin('DELETE', '/users/00000000-0000-4000-8000-00000000000a')).status,
        200,
      )
      const emailsOf = async (query: string) =>
        (await admin('GET', `/users?${query}`)).json.data.users.map(({ email }) => email)
      assert.deepEqual(await emailsOf('search=ANN%40ex'), ['ann@example.com'])
      assert.deepEqual(await emailsOf('role=nothing'), [])
      await admin('PUT', '/users/ann@example.com/lock')
      assert.ok((await emailsOf('state=locked')).includes('ann@example.com'))
      await admin('DELETE', '/users/ann@example.com/lock')
      assert.ok(!(await emailsOf('state=locked')).includes('ann@example.com'))
    })

    test('a user is shown with the reason why it cannot log in, and the wait can be ended', async () => {
      const email = await service.newUser()
      const from = '127.7.7.7'
      const verdictOf = async (query = '') =>
        (await admin('GET', `/users/${email}${query}`)).json.data.verdict.kind
      assert.equal(await verdictOf(`?client=${from}`), 'can-log-in')
      for (let i = 0; i < 6; i++) await service.login(email, 'wrong password', from)
      assert.equal(await verdictOf(`?client=${from}`), 'must-wait')
      assert.equal(await verdictOf(), 'can-log-in')
      const shown = await admin('GET', `/throttle?email=${email}&client=${from}`)
      assert.equal(shown.json.data.scopes[0]?.failures, 5)
      const { clients } = (await admin('GET', '/throttle?top=100')).json.data
      const digest = shown.json.data.scopes[2]?.digest
      assert.ok(clients.some(entry => entry.digest === digest))

      const path = `/throttle?email=${email}`
      assert.deepEqual((await admin('DELETE', path)).json.data, { cleared: true })
      assert.deepEqual((await admin('DELETE', path)).json.data, { cleared: false })
      assert.equal((await service.login(email, PASSWORD, from)).status, 200)
      const event = await lastEvent(email)
      assert.equal(event?.action, 'throttle.cleared')
      assert.deepEqual(event?.by, BY)
      assert.equal((await admin('DELETE', `/throttle?client=${from}`)).status, 200)
    })

    test('sessions are listed by pages, and ended one by one or all at once', async () => {
      const email = await service.newUser()
      for (let i = 0; i < 3; i++) await service.login(email, PASSWORD)
      const path = `/users/${email}/sessions`
      const first = (await admin('GET', `${path}?limit=2`)).json.data
      assert.equal(first.sessions.length, 2)
      const second = (await admin('GET', `${path}?limit=2&after=${first.next}`)).json.data
      assert.equal(second.sessions.length, 1)
      assert.equal(second.next, null)
      const id = second.sessions[0]?.id
      assert.equal((await admin('DELETE', `/sessions/${id}`)).status, 200)
      assert.equal((await admin('DELETE', `/sessions/${id}`)).status, 404)
      const all = await admin('DELETE', path)
      assert.equal(all.json.data.ended, 2)
      assert.equal((await admin('DELETE', path)).json.data.ended, 0)
      assert.deepEqual((await admin('GET', path)).json.data, { sessions: [], next: null })
    })

    test('the audit is read by pages, by target and since a moment', async () => {
      const since = new Date(service.now().getTime() - 1).toISOString()
      const email = 'history@example.com'
      await admin('POST', '/users', { email, name: 'H', password: PASSWORD })
      await admin('PATCH', `/users/${email}`, { isActive: false })
      await admin('PATCH', `/users/${email}`, { isActive: false })
      await admin('PATCH', `/users/${email}`, { isActive: true })
      const actions: string[] = []
      let before = ''
      for (;;) {
        const query = `target=${email}&since=${since}&limit=2${before}`
        const { events, next } = (await admin('GET', `/audit?${query}`)).json.data
        actions.push(...events.map(({ action }) => action))
        if (next === null) break
        before = `&before=${next}`
      }
      assert.deepEqual(actions, ['user.activated', 'user.deactivated', 'user.added'])
      const lately = await admin('GET', `/audit?target=${email}&since=1d`)
      assert.equal(lately.json.data.events.length, 3)
      const future = await admin('GET', '/audit?since=2099-01-01')
      assert.deepEqual(future.json.data, { events: [], next: null })
    })

    test('of the body only the email is logged, because a misspelt field may hold a password', async () => {
      const known = service.logged().length
      await admin('POST', '/users', { user: PASSWORD, id: PASSWORD, email: 'x@example.com' })
      await admin('POST', '/users', { email: PASSWORD })
      const lines = service.logged().slice(known)
      assert.deepEqual(
        lines.map(({ event, target }) => [event, target]),
        ['x@example.com', '(no email)'].map(target => ['admin.request', target]),
      )
    })

    test('each change is logged with the name of its token, its route, status, code if it was refused, and target', async () => {
      const email = await service.newUser()
      const known = service.logged().length
      await admin('DELETE', `/users/${email}`)
      await admin('DELETE', `/users/${email}`)
      await admin('GET', `/users/${email}/sessions`)
      const lines = service.logged().slice(known)
      assert.deepEqual(
        lines.map(({ time: _, requestId, userAgent, ...line }) => line),
        [{ status: 200 }, { status: 404, code: 'NOT_FOUND' }].map(answered => ({
          level: 'info',
          ip: '127.0.0.1',
          event: 'admin.request',
          tokenName: 'registration',
          method: 'DELETE',
          route: '/admin/v1/users/:user',
          ...answered,
          target: email,
        })),
      )
    })
  })
}
