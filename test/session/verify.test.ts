// GET /verify with a session: the user, roles, changes by cookie, and what counts as use.
import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countStatuses, ISSUER, loggedBy } from '../support/service.ts'
import { bearer, CSRF_FAILED, cookie, type Login, MINUTE_MS } from '../support/session-client.ts'
import {
  assertRefused,
  IDENTITY,
  LISTED,
  startVerifyService,
  type VerifyService,
} from '../support/verify-client.ts'

for (const engine of ENGINES_BY_RUN) {
  describe(`forward authentication on ${engine}`, () => {
    let service: VerifyService
    let login: Login
    before(async () => {
      service = await startVerifyService(engine)
      login = await service.newLogin()
    })
    after(async () => {
      await service.assertSecretsKept()
      await service.stop()
    })
    const verify: VerifyService['verify'] = (headers, query) => service.verify(headers, query)

    test('tells the user of a session cookie or an access token', async () => {
      for (const credential of [cookie(login.cookie), bearer(login.accessToken)]) {
        const { status, headers, text } = await verify(credential)
        const { email } = login.answer.json.data.user
        assert.deepEqual([status, text], [200, '{"success":true,"data":{}}'])
        const told = IDENTITY.map(name => headers[name])
        assert.deepEqual(told, [login.userId, email, 'Kate', 'user'])
        assert.equal(headers['cache-control'], 'no-store')
        assert.equal(headers['set-cookie'], undefined)
      }
      assert.equal((await verify({ ...cookie(login.cookie), ...bearer('x') })).status, 401)
    })

    const NAMES: [name: string, header: string][] = [
      ['Zoë 😀', 'Zo%C3%AB %F0%9F%98%80'],
      ['100% "Kate" <b>; a=b, c', '100%25 "Kate" <b>; a=b, c'],
      ['Kate\r\nRemote-Role: admin\r\n\r\n', 'Kate%0D%0ARemote-Role: admin%0D%0A%0D%0A'],
      ['\t\u007f\u0085\u2028', '%09%7F%C2%85%E2%80%A8'],
      ['', ''],
    ]
    for (const [name, header] of NAMES) {
      test(`encodes the name ${JSON.stringify(name)}`, async () => {
        const { cookie: value } = await service.newLogin(name)
        const { headers } = await verify(cookie(value))
        assert.equal(headers['remote-name'], header)
        assert.equal(decodeURIComponent(header), name)
        assert.equal(headers['remote-role'], 'user')
      })
    }

    test('refuses a user with another role, and logs it', async () => {
      const { cookie: value, userId } = await service.newLogin()
      for (const role of ['user', 'admin,user', 'user,user']) {
        assert.equal((await verify(cookie(value), `?role=${role}`)).status, 200, role)
      }
      for (const role of ['admin', 'admin,auditor', 'User', 'use', 'users', '%20user', 'user%00']) {
        const [line, ...rest] = await loggedBy(service, async () => {
          const { status, json, headers } = await verify(cookie(value), `?role=${role}`)
          assert.deepEqual([status, json.error.code], [403, 'FORBIDDEN'], role)
          for (const name of IDENTITY) assert.equal(headers[name], undefined)
        })
        assert.deepEqual([line?.event, line?.reason], ['request.refused', 'role'])
        assert.deepEqual(rest, [])
      }
      await service.database.rows(`update users set role = 'admin' where id = '${userId}'`)
      const { status, headers } = await verify(cookie(value), '?role=admin,auditor')
      assert.deepEqual([status, headers['remote-role']], [200, 'admin'])
    })

    for (const query of [
      ...['?role', '?role=', '?role=,', '?role=user,', '?role=,user', '?role=a,,b', '?=user'],
      ...['?roles=user', '?role=user&x', '?role=user&role=user', '?role[]=user', '?Role=user'],
      ...['?&', `?role=user&${'x&'.repeat(30)}`, `?${'&'.repeat(30)}x=1&role=user`],
    ]) {
      test(`refuses the query ${query.slice(0, 30)}`, async () => {
        const { status, json, headers } = await verify(cookie(login.cookie), query)
        assert.deepEqual([status, json.error.code], [400, 'BAD_REQUEST'])
        assert.deepEqual(json.error.fields, ['role'])
        assert.equal(headers['remote-user'], undefined)
      })
    }

    test('refuses a query that is too long', async () => {
      for (const query of [`?role=user,${'x'.repeat(9_000)}`, `?${'&'.repeat(9_000)}`]) {
        const { status, json, headers } = await verify(cookie(login.cookie), query)
        assert.deepEqual([status, json.error.code], [400, 'BAD_REQUEST'])
        assert.equal(headers['remote-user'], undefined)
      }
    })

    const CHANGES: [status: number, headers: OutgoingHttpHeaders][] = [
      [200, { 'Sec-Fetch-Site': 'same-origin' }],
      [200, { 'Sec-Fetch-Site': 'same-site', Origin: LISTED }],
      [403, { 'Sec-Fetch-Site': 'same-site', Origin: 'https://evil.example.com' }],
      [403, { 'Sec-Fetch-Site': 'cross-site' }],
      [403, { 'Sec-Fetch-Site': 'none' }],
      [403, { Origin: ISSUER }],
      [403, {}],
    ]
    for (const [status, headers] of CHANGES) {
      test(`a change by cookie with ${JSON.stringify(headers)} is answered ${status}`, async () => {
        for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'post', 'get', 'GET, POST', '']) {
          for (const name of ['X-Original-Method', 'X-Forwarded-Method']) {
            const asked = { [name]: method, ...headers }
            const answer = await verify({ ...cookie(login.cookie), ...asked })
            assert.equal(answer.status, status, `${name}: ${method}`)
            if (status === 403) assert.equal(answer.text, CSRF_FAILED)
            assert.equal((await verify({ ...bearer(login.accessToken), ...asked })).status, 200)
          }
        }
      })
    }

    test('a client cannot hide a change in the header that its proxy does not replace', async () => {
      for (const [real, forged] of [
        ['X-Original-Method', 'X-Forwarded-Method'],
        ['X-Forwarded-Method', 'X-Original-Method'],
      ] as const) {
        const headers = { ...cookie(login.cookie), [real]: 'POST', [forged]: 'GET' }
        assert.equal((await verify(headers)).status, 403)
        assert.equal((await verify({ ...headers, [real]: ['GET', 'POST'] })).status, 403)
      }
      for (const method of ['GET', 'HEAD', 'OPTIONS']) {
        const read = { ...cookie(login.cookie), 'X-Original-Method': method }
        assert.equal((await verify(read)).status, 200, method)
      }
    })

    test('counts as use of the cookie, with one write a minute, also of many calls at once', async () => {
      const { cookie: value, sessionId } = await service.newLogin()
      const usedAt = async () => {
        const [row] = await service.database.rows(
          `select cookie_used_at, last_used_at from sessions where id = '${sessionId}'`,
        )
        return JSON.stringify(row)
      }
      const callAll = async () => {
        const answers = await Promise.all(
          Array.from({ length: 20 }, () => verify(cookie(value), '?role=user')),
        )
        assert.deepEqual(countStatuses(answers), { 200: 20 })
      }
      for (let uses = 0; uses < 3; uses++) {
        service.advance(20 * MINUTE_MS)
        const before = await usedAt()
        await verify(cookie(value))
        const first = await usedAt()
        assert.notEqual(first, before)
        await callAll()
        assert.equal(await usedAt(), first)
      }
      service.advance(20 * MINUTE_MS)
      await callAll()
      service.advance(30 * MINUTE_MS)
      assertRefused(await verify(cookie(value)))
    })

    test('takes headers of 15 KB, and those of an upload without its body', async () => {
      const { cookie: value } = await service.newLogin()
      const long = {
        'X-Long': 'x'.repeat(14_500),
        Cookie: `a=${'b'.repeat(300)}; ${cookie(value).Cookie}`,
      }
      assert.equal((await verify(long)).status, 200)
      assert.equal((await verify({ ...long, 'X-More': 'x'.repeat(2_000) })).status, 431)
      const upload = { 'Content-Encoding': 'gzip', 'Content-Type': `a/b; c=${'x'.repeat(300)}` }
      assert.equal((await verify({ ...cookie(value), ...upload })).status, 200)
      const url = `${ISSUER}/${'x'.repeat(14_000)}`
      assertRefused(await verify({ 'X-Original-URL': url }))
    })
  })
}
