// Changes through the admin API at the same moment, repeated, interrupted and large.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { startAdminService } from '../support/admin-service.ts'
import { ENGINES, ENGINES_BY_RUN } from '../support/engines.ts'
import { faultsIn, inParallel, own } from '../support/own.ts'
import { countStatuses, PASSWORD } from '../support/service.ts'

for (const engine of ENGINES) {
  describe(`races of the admin API on ${engine}`, async () => {
    const service = await own(startAdminService(engine))
    const { admin } = service
    after(() => assert.deepEqual(faultsIn(service), []))

    test('100 passwords at once: some wait, the others get 503 with Retry-After, and logins are served', async () => {
      const body = { email: 'hashed@example.com', name: 'Hashed', password: PASSWORD }
      const taken = { ...body, email: await service.newUser() }
      const email = await service.newUser()
      const [answers, logins, refused] = await Promise.all([
        inParallel(100, () => admin('POST', '/users', body)),
        inParallel(2, () => service.login(email, PASSWORD)),
        inParallel(20, () => admin('POST', '/users', taken)),
      ])
      assert.deepEqual(countStatuses(logins), { 200: 2 })
      // An email that is taken is refused without a hash, and so never for want of a place in the queue.
      assert.deepEqual(countStatuses(refused), { 409: 20 })
      const counts = countStatuses(answers)
      assert.equal(counts[201], 1)
      assert.equal((counts[409] ?? 0) + (counts[503] ?? 0), 99)
      for (const answer of answers) {
        if (answer.status !== 503) continue
        assert.equal(answer.json.error.code, 'SERVICE_UNAVAILABLE')
        assert.ok(Number(answer.headers['retry-after']) > 0)
      }
    })

    test('of 50 users that get one new email at once one gets it, and the others get 409', async () => {
      const emails = await inParallel(50, service.newUser)
      const answers = await inParallel(50, i =>
        admin('PATCH', `/users/${emails[i]}`, { email: 'wanted@example.com' }),
      )
      assert.deepEqual(countStatuses(answers), { 200: 1, 409: 49 })
    })

    test('60 slow lists at once are all answered, and so is a login', async () => {
      const email = await service.newUser()
      const user = await service.store.users.findByEmail(email)
      await service.database.rows(`insert into audit_events
          (at, actor_kind, actor, host, action, target, target_id)
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 10000)
        select '2030-01-01T00:00:00.000Z', 'user', 'a', 'a', 'a', '${email}', '${user?.id}' from n`)
      const [answers, { status }] = await Promise.all([
        inParallel(60, () => admin('GET', `/audit?target=${email}`)),
        service.login(email, PASSWORD),
      ])
      assert.deepEqual(countStatuses(answers), { 200: 60 })
      assert.equal(status, 200)
    })
  })

  test(`on ${engine}, a change that cannot be recorded is not made, and gets 500`, async () => {
    const service = await own(startAdminService(engine))
    const email = await service.newUser()
    await service.database.rows('alter table audit_events rename to away')
    const changes: [method: string, path: string, body?: object][] = [
      ['POST', '/users', { email: 'new@example.com', name: 'New', password: PASSWORD }],
      ['PATCH', `/users/${email}`, { role: 'owner' }],
      ['PATCH', `/users/${email}`, { isActive: false }],
      ['PUT', `/users/${email}/password`, { password: 'another password' }],
      ['PUT', `/users/${email}/lock`],
      ['DELETE', `/users/${email}`],
    ]
    for (const [method, path, body] of changes) {
      assert.equal((await service.admin(method, path, body)).status, 500, `${method} ${path}`)
    }
    const lines = service.logged().filter(({ event }) => event === 'admin.request')
    assert.deepEqual(
      lines.map(({ method, status }) => `${method} ${status}`),
      changes.map(([method]) => `${method} 500`),
    )
    await service.database.rows('alter table away rename to audit_events')
    assert.equal(await service.store.users.findByEmail('new@example.com'), null)
    const { user } = (await service.login(email, PASSWORD)).json.data
    assert.equal(user.role, 'user')
  })
}

for (const engine of ENGINES_BY_RUN) {
  test(`on ${engine}, a new password reaches no other user that gets the email while it is hashed`, async () => {
    const service = await own(startAdminService(engine, { BCRYPT_COST: '12' }))
    const [email, newcomer] = [await service.newUser(), await service.newUser()]
    const user = await service.store.users.findByEmail(email)
    const path = `/users/${user?.id}`
    const hashed = service.admin('PUT', `${path}/password`, { password: 'quite another one' })
    const renamed = { email: `moved-${email}` }
    assert.equal((await service.admin('PATCH', path, renamed)).status, 200)
    assert.equal((await service.admin('PATCH', `/users/${newcomer}`, { email })).status, 200)
    // 200 if the password was set before the email was passed on.
    assert.ok([200, 404].includes((await hashed).status))
    assert.equal((await service.login(email, PASSWORD)).status, 200)
  })
}
