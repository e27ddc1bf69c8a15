// Random bodies and headers get only the documented failures.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { PUBLIC_FAILURES } from '../../src/http/answer/envelope.ts'
import { anyText } from '../support/any-text.ts'
import { ENGINES } from '../support/engines.ts'
import { faultsIn, own } from '../support/own.ts'
import { casesOf, IS_FULL } from '../support/proof.ts'
import { type Answer, type Call, startTestService, UNLIMITED } from '../support/service.ts'

const TYPE = { 'Content-Type': 'application/json' }

// A body with prototype keys is refused as a whole, so such values are left out.
const anything = fc
  .oneof(anyText(), fc.jsonValue({ maxDepth: 2 }))
  .filter(value => !/__proto__|constructor/.test(JSON.stringify(value)))
const headerName = fc.constantFrom(
  ...['User-Agent', 'X-Request-ID', 'Origin', 'Cookie', 'Authorization', 'X-Forwarded-For'],
  ...['Accept', 'X-CSRF-Token', 'Accept-Version'],
)
const headerValue = fc
  .string({ unit: 'binary-ascii' })
  .map(text => text.replace(/[^\x20-\x7e]/g, ''))

const asBody = (body: string | Buffer): Call => ({ headers: TYPE, body })
const INVALID: [what: string, calls: fc.Arbitrary<Call>, statuses: number[]][] = [
  [
    'any JSON value as a body',
    fc.jsonValue({ maxDepth: 5 }).map(value => asBody(JSON.stringify(value))),
    [400, 401, 413],
  ],
  [
    'random bytes as a body',
    fc.uint8Array({ minLength: 1, maxLength: 300 }).map(bytes => asBody(Buffer.from(bytes))),
    [400],
  ],
  [
    'random header values before an invalid body',
    fc.dictionary(headerName, headerValue).map(it => ({ headers: { ...it, ...TYPE }, body: '{}' })),
    [400],
  ],
]

for (const engine of ENGINES) {
  describe(`any body on ${engine}`, async () => {
    const service = await own(startTestService(engine, UNLIMITED))

    function assertInTable({ status, json, text }: Answer, statuses: number[]): void {
      assert.ok(statuses.includes(status), `${status} ${text}`)
      assert.equal(json.success, false)
      const known: Record<string, { status: number }> = PUBLIC_FAILURES
      assert.equal(known[json.error.code]?.status, status)
    }
    const check = (property: fc.IAsyncProperty<unknown>) =>
      fc.assert(property, { numRuns: casesOf(500) })

    // Hardly any of them reaches the database.
    for (const [what, calls, statuses] of engine === 'sqlite' || IS_FULL ? INVALID : []) {
      test(`${what}: ${statuses.join(', ')}`, () =>
        check(
          fc.asyncProperty(calls, async call => assertInTable(await service.call(call), statuses)),
        ))
    }

    test('any email and password are answered 401 if both are strings that are not empty, otherwise 400', () =>
      check(
        fc.asyncProperty(anything, anything, async (email, password) => {
          const answer = await service.call({ body: { email, password } })
          const isEmail = typeof email === 'string' && email.trim() !== ''
          const isPassword = typeof password === 'string' && password !== ''
          assertInTable(answer, isEmail && isPassword ? [401] : [400])
          if (isEmail && isPassword) return
          const fields = [...(isEmail ? [] : ['email']), ...(isPassword ? [] : ['password'])]
          assert.deepEqual(answer.json.error.fields, fields)
        }),
      ))

    test('none of these requests caused an error line', () => {
      assert.deepEqual(faultsIn(service), [])
    })
  })
}
