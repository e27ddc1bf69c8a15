// The OpenAPI document of the admin API is valid, complete and true, and needs a token. The other tests of the admin
// API compare every answer with it (admin-service.ts).
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { ADMIN_ROUTES } from '../../src/admin/api/app.ts'
import { ADMIN_FAILURES } from '../../src/http/answer/envelope.ts'
import type { Response } from '../../src/http/openapi/document.ts'
import { ADMIN, type AdminCall, startAdminService } from '../support/admin-service.ts'
import { own } from '../support/own.ts'
import { createClient, PASSWORD } from '../support/service.ts'

const EMAIL = 'ann@example.com'
const UNKNOWN = '00000000-0000-4000-8000-000000000000'
const BODIES: Record<string, object> = {
  POST: { email: EMAIL, name: 'Ann', password: PASSWORD },
  PATCH: { name: 'Ann' },
  PUT: { password: PASSWORD },
}

describe('the OpenAPI document of the admin API', async () => {
  const service = await own(startAdminService('sqlite'))
  await service.addUser(EMAIL)
  const client = await createClient(service.adminUrl, service.dataDir)
  after(client.close)
  const fetch = (path: string, token: string | null = service.read) =>
    client.call({
      method: 'GET',
      path,
      headers: token === null ? {} : { Authorization: `Bearer ${token}` },
    })
  const { text } = await fetch('/openapi.json')
  const operations = () =>
    Object.values(service.described.document.paths).flatMap(methods => Object.values(methods))

  test('is valid OpenAPI 3.1', async () => {
    const validator = new Validator()
    const { valid, errors } = await validator.validate(JSON.parse(text))
    assert.ok(valid, JSON.stringify(errors))
    assert.equal(validator.version, '3.1')
  })

  test('a field of an answer that it does not describe would be noticed', () => {
    const check = (data: object) => () =>
      service.described.check('DELETE', `${ADMIN}/users/${EMAIL}/sessions`, {
        status: 200,
        headers: { 'content-type': 'application/json; charset=utf-8', 'x-request-id': UNKNOWN },
        text: JSON.stringify({ success: true, data }),
      })
    check({ ended: 1 })()
    assert.throws(check({ ended: 1, hash: '' }), /endSessions 200/)
  })

  test('describes every route and no other, in words', () => {
    const described = Object.entries(service.described.document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
    )
    const routes = ADMIN_ROUTES.map(
      ([method, url]) => `${method} ${url.replace(/:(\w+)/, (_, name) => `{${name}}`)}`,
    )
    assert.deepEqual(described.toSorted(), routes.toSorted())
    const tags = service.described.document.tags.map(({ name }) => name)
    for (const { operationId, summary, description, tags: own, security } of operations()) {
      assert.match(summary, /^[A-Z].*[a-z]$/, operationId)
      assert.match(description, /^[A-Z].*\.$/, operationId)
      assert.ok(own.every(tag => tags.includes(tag)) && own.length === 1, operationId)
      assert.deepEqual(security, [{ adminToken: [] }], operationId)
    }
  })

  // Other failures of each operation are in access.test.ts and api.test.ts.
  test('every operation answers as described what it does not find and what it cannot do', async () => {
    for (const [method, url] of ADMIN_ROUTES) {
      const path = url.slice(ADMIN.length).replace(/:user|:id/, UNKNOWN)
      const query = url.endsWith('/throttle') ? '?client=::1' : ''
      const body = url.endsWith('/lock') ? undefined : BODIES[method]
      const codeOf = async (call: AdminCall) =>
        (await service.admin(method, path + query, body, call)).json.error?.code
      assert.equal(await codeOf({ headers: { Expect: 'miracles' } }), 'EXPECTATION_FAILED', url)
      assert.equal((await codeOf({})) === 'NOT_FOUND', url.includes(':'), url)
    }
    for (const code of Object.keys(ADMIN_FAILURES)) assert.ok(text.includes(`\`${code}\``), code)
  })

  test('its examples are valid, and every failure is explained', () => {
    const { components } = service.described.document
    for (const [name, response] of Object.entries<Response>(components.responses)) {
      const { schema = {}, examples = {} } = response.content?.['application/json'] ?? {}
      for (const [code, { summary, value }] of Object.entries(examples)) {
        assert.match(summary, /^[a-z`].{10}/, name)
        service.described.assertValid(schema, value, code)
      }
    }
  })

  test('is the same for every deployment', async () => {
    const env = { BRAND_NAME: 'Acme', BCRYPT_COST: '5', THROTTLE_PAIR_FAILURES: '2' }
    const other = await own(startAdminService('sqlite', env))
    assert.deepEqual(other.described.document, service.described.document)
  })

  test('it and the page for people need a token that may read, and are not cached', async () => {
    const create = await service.addToken('create', 'create')
    for (const path of ['/openapi.json', '/docs']) {
      for (const [token, status, code] of [
        [null, 401, 'INVALID_TOKEN'],
        ['lsadm_wrong', 401, 'INVALID_TOKEN'],
        [create, 403, 'FORBIDDEN'],
        [service.read, 200, undefined],
        [service.write, 200, undefined],
      ] as const) {
        const answer = await fetch(path, token)
        assert.deepEqual([answer.status, answer.json.error?.code], [status, code])
        assert.equal(answer.headers['cache-control'], 'no-store')
      }
    }
  })

  test('the page for people has every operation and object', async () => {
    const { headers, text: html } = await fetch('/docs')
    assert.equal(headers['content-type'], 'text/html; charset=utf-8')
    for (const { operationId } of operations()) assert.ok(html.includes(`id="${operationId}"`))
    for (const [, name] of html.matchAll(/href="#(\w+)"/g)) {
      assert.ok(html.includes(`id="${name}"`), name)
    }
    assert.doesNotMatch(html, /undefined|\[object/)
  })
})
