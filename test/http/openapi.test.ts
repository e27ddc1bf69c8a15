// The OpenAPI document is valid, complete and true: every answer that it describes is met.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { subscribe } from 'node:diagnostics_channel'
import { describe, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { FastifyInstance } from 'fastify'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import type { Store } from '../../src/domain/store.ts'
import type { Response } from '../../src/http/openapi/document.ts'
import type { JsonSchema } from '../../src/http/openapi/operation.ts'
import { createAuthenticator } from '../support/authenticator.ts'
import { createDescription } from '../support/described.ts'
import { own } from '../support/own.ts'
import { createRawClient } from '../support/raw-connection.ts'
import {
  type Answer,
  type Call,
  createClient,
  LOGIN,
  PASSWORD,
  startTestService,
} from '../support/service.ts'
import { AUTH, bearer, cookie, ownChange, startSessionService } from '../support/session-client.ts'
import {
  createVisitor,
  makeTemporary,
  NAVIGATION,
  noticeIn,
  refreshIn,
} from '../support/visitor.ts'

const JSON_TYPE = { 'Content-Type': 'application/json' }
const SESSIONS = `${AUTH}/sessions`
const MISSING_ID = '00000000-0000-4000-8000-000000000000'
/** Characters that JSON escapes, and some that it does not. */
const ODD_NAME = `Zoë "quoted" \\ / \u0001\u2028 😀 <b> ${'x'.repeat(50)}`

const CALLBACK = 'https://app.example.net/in'
const VERIFIER = 'v'.repeat(43)
const CHALLENGE = hash('sha256', VERIFIER, 'base64url')

const NEW_PASSWORD = { currentPassword: PASSWORD, newPassword: 'seven green boats at noon' }

type Target = { method: string; path: string }

/** Not part of the API: the pages, the files that they load, and the document. */
const NOT_DESCRIBED = ['/', '/.well-known/change-password', '/assets', '/docs', '/openapi.json']

/** The routes of every app that starts in this process, without those that answer HEAD and 405. */
const routes = new Set<string>()
subscribe('fastify.initialization', message => {
  const { fastify } = message as { fastify: FastifyInstance }
  fastify.addHook('onRoute', ({ method, url }) => {
    if (typeof method === 'string' && method !== 'HEAD') routes.add(`${method} ${url}`)
  })
})

describe('the OpenAPI document', async () => {
  const env = {
    ...{ THROTTLE_PAIR_FAILURES: '2', CODE_CALLBACKS: CALLBACK },
    SECOND_FACTOR_ROLES: 'editor',
  }
  const service = await own(startSessionService('sqlite', env))
  const { text } = await service.call({ method: 'GET', path: '/openapi.json' })
  const description = createDescription(text)
  const { paths, components, tags } = description.document
  const operations = Object.values(paths).flatMap(methods => Object.values(methods))
  const targets: Record<string, Target> = Object.fromEntries(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId }]) => [
        operationId,
        { method: method.toUpperCase(), path: path.replace('{id}', MISSING_ID) },
      ]),
    ),
  )
  /** Operation, status and code of every answer, such as "logIn 401 INVALID_CREDENTIALS". */
  const met = new Set<string>()

  function note({ method, path }: Target, answer: Pick<Answer, 'status' | 'headers' | 'text'>) {
    description.check(method, path, answer)
    const id = description.find(method, path)?.id
    const { error } = JSON.parse(answer.text || '{}')
    met.add([id, answer.status, ...(error ? [error.code] : [])].join(' '))
  }

  async function meet(name: string, call: Call, expected: number, by = service): Promise<Answer> {
    const target = { method: '', path: '', ...targets[name], ...call }
    const answer = await by.call(target)
    assert.equal(answer.status, expected, `${name}: ${answer.text}`)
    note(target, answer)
    return answer
  }

  test('is valid OpenAPI 3.1; a broken one would be noticed', async () => {
    const validator = new Validator()
    const { valid, errors } = await validator.validate(JSON.parse(text))
    assert.ok(valid, JSON.stringify(errors))
    assert.equal(validator.version, '3.1')
    const broken = JSON.parse(text)
    broken.paths[LOGIN].post.responses = { 200: { content: {} } }
    assert.equal((await new Validator().validate(broken)).valid, false)
    const answer = { status: 418, headers: {}, text: '{}' }
    assert.throws(() => description.check('POST', LOGIN, answer), /logIn 418 is not described/)
  })

  test('describes every operation in words, the body of every success and the codes of every failure', () => {
    for (const { operationId, responses, ...operation } of operations) {
      const { summary, description: about, tags: own, security } = operation
      assert.match(summary, /^[A-Z].*[a-z]$/)
      assert.match(about, /^[A-Z].*\.$/)
      assert.ok(own.length === 1 && tags.some(({ name }) => name === own[0]))
      assert.ok(Array.isArray(security), operationId)
      for (const [status, response] of Object.entries(responses)) {
        const { content } = description.resolve<Response>(response)
        if (['302', '304'].includes(status)) {
          assert.equal(content, undefined)
          continue
        }
        const { schema = {}, examples = {} } = content?.['application/json'] ?? {}
        const { data = schema, error } = schema.properties ?? {}
        if (status === '200') assert.ok(data.$ref, operationId)
        else assert.deepEqual(error?.properties?.code?.enum, Object.keys(examples))
        if (status === '429') {
          const { retryAfter } = error?.properties ?? {}
          assert.equal(retryAfter?.const, 900)
          assert.match(retryAfter?.description ?? '', /header `Retry-After`/)
        }
      }
    }
    for (const name of Object.values(components).flatMap(Object.keys)) {
      assert.match(name, /^[A-Za-z-]+$/)
    }
    const tokens = ['user', 'accessToken', 'refreshToken', 'expiresIn']
    assert.deepEqual(components.schemas.Tokens?.required, tokens)
    for (const path of ['refresh', 'logout']) {
      const { requestBody } = paths[`${AUTH}/${path}`]?.post ?? {}
      const { schema } = requestBody?.content['application/json'] ?? {}
      assert.deepEqual([requestBody?.required, schema?.required], [false, ['refreshToken']])
    }
  })

  test('every text of a request has a greatest length', () => {
    assert.deepEqual(description.endless, [])
  })

  test('tells how to verify an access token, with every claim', async () => {
    const { accessToken } = await service.programLogin(await service.newUser())
    const about = operations.find(({ operationId }) => operationId === 'getKeys')?.description
    const { alg, typ } = decodeProtectedHeader(accessToken)
    for (const name of [alg, typ, ...Object.keys(decodeJwt(accessToken))]) {
      assert.ok(about?.includes(`\`${name}\``), name)
    }
  })

  test('describes every route except the pages', () => {
    const described = Object.values(targets).map(({ method, path }) => `${method} ${path}`)
    const served = [...routes]
      // Other files of this process may have started the admin API and the console.
      .filter(route => !/ \/(admin|console|login)(\/|$)/.test(route))
      .map(route => route.replace(':id', MISSING_ID).replace(/(\/assets)\/.*/, '$1'))
    const others = NOT_DESCRIBED.map(path => `GET ${path}`)
    assert.deepEqual(new Set(served), new Set([...described, ...others]))
  })

  test('its examples are valid', () => {
    const visit = (part: unknown): void => {
      if (part === null || typeof part !== 'object') return
      const { examples } = part as JsonSchema
      if (Array.isArray(examples)) {
        for (const example of examples) description.assertValid(part, example, String(example))
      }
      Object.values(part).forEach(visit)
    }
    visit(description.document)
    for (const response of Object.values(components.responses ?? {})) {
      const { schema = {}, examples = {} } = response.content?.['application/json'] ?? {}
      for (const [code, example] of Object.entries(examples)) {
        description.assertValid(schema, Object(example).value, code)
      }
    }
  })

  test('every operation answers 200 as described, in the same bytes as JSON.stringify', async () => {
    const email = 'odd@example.com'
    await service.addUser(email, { name: ODD_NAME })
    const { accessToken, refreshToken } = await service.programLogin(email)
    const browser = await service.browserLogin(email)
    const other = await service.programLogin(email)
    const token = bearer(accessToken)
    const byCookie = cookie(browser.cookie)
    const credentials = { email, password: PASSWORD }
    const query = new URLSearchParams({ return_to: CALLBACK, challenge: CHALLENGE })
    const visit = { method: 'GET', path: `/login?${query}` }
    const leaving = await service.call({ ...visit, headers: { ...byCookie, ...NAVIGATION } })
    const code = new URL(refreshIn(leaving) ?? '').searchParams.get('code')
    const app = createAuthenticator(service.now)
    const CALLS: [name: string, call: Call][] = [
      ['redeemCode', { body: { code, verifier: VERIFIER } }],
      ['logIn', { body: credentials }],
      ['logIn', { body: credentials, headers: { 'Sec-Fetch-Site': 'none' } }],
      ['refresh', { body: { refreshToken } }],
      ['refresh', { headers: ownChange(browser) }],
      ['getSession', { headers: token }],
      ['getSession', { headers: byCookie }],
      ['listSessions', { headers: token }],
      ['listSessions', { headers: token, path: `${SESSIONS}?limit=1` }],
      ['verify', { headers: byCookie }],
      ['endSession', { headers: token, path: `${SESSIONS}/${other.sessionId}` }],
      ['endOtherSessions', { headers: token }],
      ['logOut', { headers: token }],
      ['logOut', {}],
      ['getKeys', {}],
      ['changeSecondFactor', { body: { ...credentials, secret: app.secret, newOtp: app.code() } }],
      ['changePassword', { body: { email, otp: app.code(1), ...NEW_PASSWORD } }],
      ['listEndedSessions', {}],
      ['getPasskeyChallenge', {}],
    ]
    const answers: Answer[] = []
    for (const [name, call] of CALLS) answers.push(await meet(name, call, 200))
    for (const { text: sent, json } of answers) assert.equal(sent, JSON.stringify(json))
    const { etag = '' } = answers.find(({ headers }) => headers.etag)?.headers ?? {}
    await meet('listEndedSessions', { headers: { 'If-None-Match': etag } }, 304)
    assert.equal(answers[1]?.json.data.user.name, ODD_NAME)
    const keys = answers.map(({ json: { data = {} } }) => Object.keys(data).join(' '))
    const tokens = 'user accessToken refreshToken expiresIn'
    const ofBrowser = ['user accessToken expiresIn', 'user session factors recoveryCodesLeft']
    assert.deepEqual(keys.slice(1, 6), [tokens, tokens, tokens, ...ofBrowser])
    assert.equal(keys[8], 'sessions next')
  })

  test('operations fail as described', async () => {
    const email = await service.newUser()
    let { refreshToken } = await service.programLogin(email)
    const browser = await service.browserLogin(email)
    const { cookie: value } = browser
    const token = bearer((await service.programLogin(email)).accessToken)
    const foreign = { 'Sec-Fetch-Site': 'cross-site' }
    const temporary = await service.newUser()
    await makeTemporary(service, temporary)
    await meet('logIn', { body: { email: temporary, password: PASSWORD } }, 403)
    await meet('logIn', { body: { email } }, 400)
    await meet('logIn', { body: { email }, headers: foreign }, 403)
    for (const status of [401, 401, 429]) {
      await meet('logIn', { body: { email, password: 'wrong' } }, status)
    }
    const editor = await service.newUser()
    await service.database.rows(`update users set role = 'editor' where email = '${editor}'`)
    const codes = { password: PASSWORD, recoveryCodes: true }
    await meet('logIn', { body: { email: editor, password: PASSWORD } }, 403)
    await meet('changePassword', { body: { email: editor, ...NEW_PASSWORD } }, 403)
    await meet('changeSecondFactor', { body: { email: editor, ...codes } }, 403)
    await meet('changeSecondFactor', { body: { email: temporary, ...codes } }, 403)
    await meet('changeSecondFactor', { body: { email: temporary } }, 400)
    await meet('changeSecondFactor', { body: { email: temporary }, headers: foreign }, 403)
    for (const status of [401, 401, 429]) {
      const body = { email: editor, ...codes, password: 'wrong' }
      await meet('changeSecondFactor', { body }, status)
    }
    const change = { email: temporary, ...NEW_PASSWORD }
    await meet('changePassword', { body: { ...change, newPassword: 'short' } }, 400)
    await meet('changePassword', { body: change, headers: foreign }, 403)
    for (const status of [401, 401, 429]) {
      await meet('changePassword', { body: { ...change, currentPassword: 'wrong' } }, status)
    }
    for (const query of ['limit=0', 'after=x', `after=${MISSING_ID}`, 'limit=1&limit=2']) {
      await meet('listSessions', { headers: token, path: `${SESSIONS}?${query}` }, 400)
    }
    const authenticated = ['getSession', 'verify', 'listSessions', 'endOtherSessions', 'endSession']
    for (const name of ['refresh', ...authenticated]) {
      await meet(name, {}, 401)
    }
    await meet('refresh', { body: { refreshToken: 'a.b.c' } }, 401)
    await meet('getSession', { headers: bearer('a.b.c') }, 401)
    for (const name of ['refresh', 'logOut', 'endOtherSessions', 'endSession']) {
      await meet(name, { headers: cookie(value) }, 403)
    }
    await meet('verify', { headers: { ...cookie(value), 'X-Original-Method': 'POST' } }, 403)
    await meet('verify', { headers: token, path: `${AUTH}/verify?role=admin` }, 403)
    await meet('verify', { headers: token, path: `${AUTH}/verify?roles=user` }, 400)
    await meet('redeemCode', { body: { code: 'x' } }, 400)
    await meet('redeemCode', { body: { code: 'x', verifier: 'x' } }, 401)
    await meet('endSession', { headers: token }, 404)
    await meet('endSession', { headers: token, path: `${SESSIONS}/x` }, 404)
    for (let i = 0; i < 60; i++) {
      const { json } = await meet('refresh', { body: { refreshToken } }, 200)
      refreshToken = json.data.refreshToken
    }
    await meet('refresh', { body: { refreshToken } }, 429)
    for (let i = 0; i < 600; i++) await service.get('/session', cookie(value))
    for (const name of ['getSession', 'listSessions']) {
      await meet(name, { headers: ownChange(browser) }, 429)
    }
  })

  test('every operation refuses requests that it cannot read as described', async () => {
    const long = JSON.stringify('x'.repeat(17_000))
    const WAYS: [status: number, call: Pick<Call, 'headers' | 'body'>][] = [
      [400, { headers: { Authorization: ['a', 'b'] } }],
      [415, { body: '{}', headers: { 'Content-Encoding': 'gzip', 'Content-Length': 2 } }],
      [417, { headers: { Expect: 'miracles' } }],
      [431, { headers: { 'X-Long': 'x'.repeat(17_000) } }],
      // For a DELETE, Node sends no length by itself.
      [413, { body: long, headers: { ...JSON_TYPE, 'Content-Length': long.length } }],
    ]
    for (const [name, { method }] of Object.entries(targets)) {
      for (const [status, call] of WAYS) {
        if (status !== 413 || method !== 'GET') await meet(name, call, status)
      }
    }
  })

  test('behind a proxy every operation fails as described, and the document is the same', async () => {
    // An IP address has no passkeys.
    const SECRET = 'https://192.0.2.7'
    const hosts = { RETURN_TO_ORIGINS: SECRET, JWT_ISSUER: SECRET, CORS_ORIGINS: SECRET }
    const others = { BRAND_NAME: 'Acme', BCRYPT_COST: '10', SECOND_FACTOR: 'off' }
    const env = { TRUST_PROXY: '127.0.0.1/32', ...others, ...hosts }
    const proxied = await own(startSessionService('sqlite', env))
    const forwarded = (proto: string, client: string) => ({
      'X-Forwarded-Proto': proto,
      'X-Forwarded-For': client,
    })
    for (const name of Object.keys(targets)) {
      await meet(name, { headers: forwarded('http', '203.0.113.9') }, 403, proxied)
      await meet(name, { headers: forwarded('https', 'unknown') }, 500, proxied)
    }
    const headers = forwarded('https', '203.0.113.9')
    const opened = { 'X-Forwarded-Host': new URL(SECRET).host, 'X-Forwarded-Uri': '/orders' }
    const visit = { ...headers, ...opened, 'X-Forwarded-Method': 'GET', ...NAVIGATION }
    await meet('verify', { headers: visit }, 302, proxied)
    const body = { email: 'kate@example.com', password: PASSWORD, secret: 'A', newOtp: '1' }
    await meet('changeSecondFactor', { headers, body }, 503, proxied)
    await meet('getPasskeyChallenge', { headers }, 503, proxied)
    const other = await proxied.call({ method: 'GET', path: '/openapi.json', headers })
    assert.equal(other.text, text)
    assert.doesNotMatch(text, /localhost|127\.0\.0|192\.0\.2\.7|\/tmp|\w:\d{4}/)
  })

  test('while the service stops every operation fails as described, and a form with a page that has the email', async () => {
    const reading = Promise.withResolvers<void>()
    const allAnswered = Promise.withResolvers<void>()
    const wrap = (store: Store): Store => {
      const findLiveByCookie: Store['sessions']['findLiveByCookie'] = async (...args) => {
        reading.resolve()
        await allAnswered.promise
        return store.sessions.findLiveByCookie(...args)
      }
      return { ...store, sessions: { ...store.sessions, findLiveByCookie } }
    }
    const stopping = await own(startTestService('sqlite', {}, null, undefined, wrap))
    // The client of the service is closed when the service stops.
    const client = await createClient(stopping.url, stopping.dataDir)
    const slow = client.call({ ...targets.getSession, headers: cookie('A'.repeat(43)) })
    await reading.promise
    const stopped = stopping.stop()
    for (const target of Object.values(targets)) {
      const answer = await client.call(target)
      assert.equal(answer.status, 503, answer.text)
      note(target, answer)
    }
    const refused = await createVisitor(client).logIn('lea@example.com')
    assert.deepEqual([refused.status, refused.headers['retry-after']], [503, '5'])
    assert.match(noticeIn(refused) ?? '', /^The service is busy/)
    assert.match(refused.text, /value="lea@example.com"/)
    allAnswered.resolve()
    assert.equal((await slow).status, 401)
    await stopped
    client.close()
  })

  test('every operation refuses a request that does not end as described', async () => {
    const raw = await createRawClient(service)
    const halves = Object.values(targets).map(async target => {
      const half = `${target.method} ${target.path} HTTP/1.1\r\nHost: localhost\r\n`
      const [answer] = await raw.exchange(half)
      assert.equal(answer?.status, 408)
      const { status, headers, body: text } = answer
      note(target, { status, headers: Object.fromEntries(headers), text })
    })
    await Promise.all(halves)
  })

  test('every described status and code has been met, and no other', () => {
    const described = operations.flatMap(({ operationId, responses }) =>
      Object.entries(responses).flatMap(([status, response]) => {
        const { content } = description.resolve<Response>(response)
        const codes = Object.keys(content?.['application/json']?.examples ?? {})
        return Number(status) < 400
          ? [`${operationId} ${status}`]
          : codes.map(code => `${operationId} ${status} ${code}`)
      }),
    )
    assert.deepEqual([...met].toSorted(), described.toSorted())
  })
})
