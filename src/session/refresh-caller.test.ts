import assert from 'node:assert/strict'
import { test } from 'node:test'
import { digestCaller, type RefreshCaller, recogniseCaller } from './refresh-caller.ts'

const ID = 'c2f7a2a4-0000-4000-8000-00000000000a'
const caller: RefreshCaller = { requestId: ID, group: '192.0.2.1', userAgent: 'app' }
const shown = { id: 'the replaced token', token: 'its text' }
const issued = { id: 'the successor', keyId: 'k', issuedAt: new Date(0), expiresAt: new Date(1) }

/** The successor that a caller got for the token. */
const successorFor = (by: RefreshCaller) => ({
  ...issued,
  ...digestCaller(by, shown.token, issued.id),
  isRevoked: false,
})
const foundFor = (by: RefreshCaller) => ({ requestDigest: null, successor: successorFor(by) })

test('the caller of a repetition is recognised by its request id, else by its address and user agent', () => {
  const elsewhere = { ...caller, group: '192.0.2.2' }
  const otherAgent = { ...caller, userAgent: 'other', requestId: null }
  const otherId = ID.replace('a', 'b')
  const cases: [string, RefreshCaller, RefreshCaller, 'id' | 'client' | null][] = [
    ['same request', caller, caller, 'id'],
    ['same request, in capital letters', caller, { ...caller, requestId: ID.toUpperCase() }, 'id'],
    ['same request, from another address', caller, elsewhere, 'id'],
    ['another request of the client', caller, { ...caller, requestId: otherId }, 'client'],
    ['no request id', { ...caller, requestId: null }, { ...caller, requestId: null }, 'client'],
    ['a request id only at first', caller, { ...caller, requestId: null }, 'client'],
    ['another request from elsewhere', caller, { ...elsewhere, requestId: otherId }, null],
    ['another user agent', { ...caller, requestId: null }, otherAgent, null],
  ]
  for (const [name, first, again, by] of cases) {
    assert.equal(recogniseCaller(again, shown, foundFor(first)), by, name)
  }
})

test('a request id that the refresh before had too does not count', () => {
  const before = digestCaller(caller, 'the token before', shown.id)
  const found = { ...foundFor(caller), requestDigest: before.requestDigest }
  assert.equal(recogniseCaller(caller, shown, found), 'client')
  assert.equal(recogniseCaller({ ...caller, group: '192.0.2.2' }, shown, found), null)
})

test('a token without a successor has no caller', () => {
  assert.equal(recogniseCaller(caller, shown, { requestDigest: null, successor: null }), null)
})

test('digests have 132 bits', () => {
  const { requestDigest, clientDigest } = digestCaller(caller, shown.token, issued.id)
  assert.deepEqual([requestDigest?.length, clientDigest?.length], [22, 22])
})
