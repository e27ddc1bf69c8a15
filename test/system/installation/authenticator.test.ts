// Debian's oathtool in the place of an authenticator app.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { findCode, toBase32 } from '../../../src/login/totp.ts'
import { SECOND_FACTOR, STEP_MS } from '../../support/authenticator.ts'
import { own } from '../../support/own.ts'
import { createDeployment } from '../../support/process.ts'
import { createRandom } from '../../support/random.ts'
import { PASSWORD } from '../../support/service.ts'

const EMAIL = 'kate@example.com'
const LAST_SECOND = 4_102_444_800

const codeOf = (secret: string, at: Date) =>
  execFileSync('oathtool', ['--totp', '-b', '-N', at.toISOString(), secret], {
    encoding: 'utf8',
  }).trim()

test('secrets of 20 to 64 bytes have the same codes, at any time', () => {
  const random = createRandom(6238)
  for (let bytes = 20; bytes <= 64; bytes++) {
    const secret = randomBytes(bytes)
    const now = new Date(Math.floor(random() * LAST_SECOND) * 1000)
    const found = findCode(secret, codeOf(toBase32(secret), now), now)
    assert.equal(found?.offsetSeconds, 0, `${toBase32(secret)} at ${now.toISOString()}`)
  }
})

test('a user sets it up and logs in with its codes', async () => {
  const deployment = await own(createDeployment('sqlite'))
  await deployment.addUser(EMAIL)
  const service = await deployment.start()
  const secret = toBase32(randomBytes(20))
  const later = (ms: number) => new Date(Date.now() + ms)
  const credentials = { email: EMAIL, password: PASSWORD }
  const body = { ...credentials, secret, newOtp: codeOf(secret, later(0)) }
  assert.equal((await service.call({ path: SECOND_FACTOR, body })).status, 200)
  assert.equal((await service.login(EMAIL)).status, 401)
  // That of the next step, which is not used up.
  const login = { body: { ...credentials, otp: codeOf(secret, later(STEP_MS)) } }
  assert.equal((await service.call(login)).status, 200)
  assert.equal((await service.call(login)).status, 401)
})
