// Many generated requests to the admin API: none causes a fault.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startAdminService } from '../support/admin-service.ts'
import { ENGINES } from '../support/engines.ts'
import { sendAnything } from './fuzz.ts'

for (const engine of ENGINES) {
  test(`5,000 generated requests to the admin API on ${engine} get answers of the documented kinds`, async t => {
    const service = await startAdminService(engine)
    t.after(() => service.stop())
    await sendAnything(service, 5_000)
    const faults = service.logged().filter(({ level }) => level === 'error' || level === 'fatal')
    assert.deepEqual(faults, [])
  })
}
