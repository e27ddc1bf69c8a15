import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ConfigError, loadConfig } from './config.ts'

const PRODUCTION = {
  NODE_ENV: 'production',
  TRUST_PROXY: '10.0.0.1',
  SIGNING_KEYS_FILE: '/run/keys.json',
}
const LONGEST = `https://${'i'.repeat(92)}`

describe('JWT_ISSUER is an https URL, as RFC 8414 demands', () => {
  const TAKEN = [
    ...['https://i.example', 'https://i.example/', 'https://i.example:444/a/b', LONGEST],
    ...['http://localhost:3000', 'http://127.0.0.1:3000', 'http://[::1]:3000'],
  ]
  for (const issuer of TAKEN) {
    test(`takes ${issuer}`, () => {
      const { tokens } = loadConfig({ JWT_ISSUER: issuer })
      assert.deepEqual([tokens.issuer, tokens.audience], [issuer, issuer])
    })
  }

  const REFUSED = [
    ...['login', 'login.example.com', '//i.example', 'https:', 'https://', 'https:i.example'],
    ...['urn:login', 'ftp://i.example', 'javascript:alert(1)', 'ü'.repeat(51), '"'.repeat(51)],
    ...['https://i.example?tenant=1', 'https://i.example/?', 'https://i.example/#a'],
    ...['https://i.example#', 'https://u@i.example', 'https://u:p@i.example', 'https://I.example'],
    ...['HTTPS://i.example', 'https://i.example:443', 'https://i.example/a b', 'https://ü.example'],
    ...['https://i.example/a/../b', 'http://i.example', 'http://localhost.example'],
    ...['http://127.example', `${LONGEST}i`],
  ]
  for (const issuer of REFUSED) {
    test(`refuses ${issuer}`, () => {
      const expected =
        /^JWT_ISSUER must (be a URL such as https:\/\/login\.example\.com|have at most 100)/
      assert.throws(
        () => loadConfig({ JWT_ISSUER: issuer }),
        (error: unknown) =>
          error instanceof ConfigError &&
          error.problems.length === 1 &&
          expected.test(error.problems.join()),
      )
    })
  }

  test('in production plain HTTP is refused, also for this machine', () => {
    const JWT_ISSUER = 'http://localhost:8443'
    assert.throws(() => loadConfig({ ...PRODUCTION, JWT_ISSUER }), /JWT_ISSUER must be a URL/)
    loadConfig({ ...PRODUCTION, JWT_ISSUER: 'https://i.example' })
  })
})
