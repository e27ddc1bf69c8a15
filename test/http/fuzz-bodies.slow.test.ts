// Random bodies and headers get only the documented failures.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { PUBLIC_FAILURES } from '../../src/http/answer/envelope.ts'
import { anyText } from '../support/any-text.ts'
import { ENGINES } from '../support/engines.ts'
import { casesOf } from '../support/proof.ts'
import { type Answer, startTestService, type TestService, UNLIMITED } from '../support/service.ts'

const RUNS = casesOf(500)
const TYPE = { 'Content-Type': 'application/json' }

for (const engine of ENGINES) {
  describe(`any body on ${engine}`, () => {
    let service: TestService
    before(async () => {
      service = await startTestService(engine, UNLIMITED)
    })
    after(() => service.stop())

    function assertInTable({ status, json, text }: Answer, statuses: number[]): void {
      assert.ok(statuses.includes(status), `${status} ${text}`)
      assert.equal(json.success, false)
      const known: Record<string, { status: number }> = PUBLIC_FAILURES
      assert.equal(known[json.error.code]?.status, status)
    }

    test('any JSON value as a body is answered 400, 401 or 413', async () => {
      await fc.assert(
        fc.asyncProperty(fc.jsonValue({ maxDepth: 5 }), async value => {
          const answer = await service.call({ headers: TYPE, body: JSON.stringify(value) })
          assertInTable(answer, [400, 401, 413])
        }),
        { numRuns: RUNS },
      )
    })

    test('any email and password are answered 401 if both are strings that are not empty, otherwise 400', async () => {
      // A body with prototype keys is refused as a whole, so such values are left out.
      const anything = fc
        .oneof(anyText(), fc.jsonValue({ maxDepth: 2 }))
        .filter(value => !/__proto__|constructor/.test(JSON.stringify(value)))
      await fc.assert(
        fc.asyncProperty(anything, anything, async (email, password) => {
          const answer = await service.call({ body: { email, password } })
          const isEmail = typeof email === 'string' && email.trim() !== ''
          const isPassword = typeof password === 'string' && password !== ''
          assertInTable(answer, isEmail && isPassword ? [401] : [400])
          if (isEmail && isPassword) return
          assert.deepEqual(answer.json.error.fields, [
            ...(isEmail ? [] : ['email']),
            ...(isPassword ? [] : ['password']),
          ])
        }),
        { numRuns: RUNS },
      )
    })

    test('random bytes as a body are answered 400', async () => {
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 300 }), async bytes => {
          const answer = await service.call({ headers: TYPE, body: Buffer.from(bytes) })
          assertInTable(answer, [400])
        }),
        { numRuns: RUNS },
      )
    })

    test('random header values do not change the answer to an invalid body', async () => {
      const name = fc.constantFrom(
        ...['User-Agent', 'X-Request-ID', 'Origin', 'Cookie', 'Authorization', 'X-Forwarded-For'],
        ...['Accept', 'X-CSRF-Token', 'Accept-Version'],
      )
      const value = fc
        .string({ unit: 'binary-ascii' })
        .map(text => text.replace(/[^\x20-\x7e]/g, ''))
      await fc.assert(
        fc.asyncProperty(fc.dictionary(name, value), async headers => {
          const answer = await service.call({ headers: { ...headers, ...TYPE }, body: '{}' })
          assertInTable(answer, [400])
        }),
        { numRuns: RUNS },
      )
    })

    test('none of these requests caused an error line', () => {
      assert.deepEqual(
        service.logged().filter(({ level }) => level === 'error'),
        [],
      )
    })
  })
}
