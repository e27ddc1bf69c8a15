// The tag of a device cookie is checked without a lookup, and is the same on every instance.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { PASSWORD, startTestService } from '../support/service.ts'
import {
  cookie,
  cookieIn,
  DEVICE_COOKIE,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

for (const engine of ENGINES_BY_RUN) {
  describe(`the tag of a device cookie on ${engine}`, () => {
    let service: SessionService
    let email: string
    let device: string
    before(async () => {
      service = await startSessionService(engine, { THROTTLE_EMAIL_FAILURES: '6' })
      email = await service.newUser()
      device = (await service.browserLogin(email)).device
    })
    after(() => service.stop())

    const attemptWith = (value: string, password: string) => ({
      headers: { 'Sec-Fetch-Site': 'same-origin', ...cookie(value, DEVICE_COOKIE) },
      body: { email, password },
    })

    test('a cookie with a wrong tag is treated as unknown without reading the devices', async t => {
      await service.database.rows('alter table devices rename to gone')
      t.after(() => service.database.rows('alter table gone rename to devices'))
      const genuine = await service.call(attemptWith(device, 'wrong'))
      assert.equal(genuine.status, 500, 'a genuine cookie is looked up')
      const forged = `${device.slice(0, 43)}${'A'.repeat(22)}`
      for (const status of [401, 401, 401, 401, 401, 429, 429]) {
        assert.equal((await service.call(attemptWith(forged, 'wrong'))).status, status)
      }
    })

    test('a device is known to an instance with other signing keys', async t => {
      const SIGNING_KEYS_FILE = join(service.dataDir, 'other-keys.json')
      const other = await startTestService(engine, { SIGNING_KEYS_FILE }, service)
      t.after(other.stop)
      assert.equal((await other.login(email, PASSWORD)).status, 429)
      const answer = await other.call(attemptWith(device, PASSWORD))
      assert.equal(answer.status, 200)
      assert.equal(cookieIn(answer, DEVICE_COOKIE), device)
    })
  })
}
