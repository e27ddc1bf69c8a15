// Logins while a token of the admin API sets passwords as fast as it can.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startAdminService } from '../support/admin-service.ts'
import { inParallel, own } from '../support/own.ts'
import { casesOf } from '../support/proof.ts'
import { createAddresses, PASSWORD } from '../support/service.ts'

const ROUNDS = casesOf(3)
const LOGINS_PER_ROUND = 10
const SETTERS = 20

test('a flood of passwords over the admin API delays logins and refuses none', async t => {
  // Cost 10: a hash takes long enough to be measured.
  const service = await own(startAdminService('sqlite', { BCRYPT_COST: '10' }))
  const newAddress = createAddresses()
  const email = await service.newUser()
  const other = await service.newUser()
  await service.admin('PUT', `/users/${email}/password`, { password: PASSWORD })
  let isFlooding = false
  let set = 0
  let refused = 0
  const setPasswords = async () => {
    while (isFlooding) {
      const path = `/users/${other}/password`
      const { status } = await service.admin('PUT', path, { password: PASSWORD })
      assert.ok(status === 200 || status === 503 || status === 429, String(status))
      if (status === 200) set++
      else {
        refused++
        await new Promise(resolve => setTimeout(resolve, 20))
      }
    }
  }
  const measure = async () => {
    const times: number[] = []
    for (let i = 0; i < LOGINS_PER_ROUND; i++) {
      const startedMs = performance.now()
      const { status } = await service.login(email, PASSWORD, newAddress())
      assert.equal(status, 200)
      times.push(performance.now() - startedMs)
    }
    return times
  }
  const alone: number[] = []
  const flooded: number[] = []
  // Alternating, so that both see the same machine.
  for (let round = 0; round < ROUNDS; round++) {
    alone.push(...(await measure()))
    isFlooding = true
    const setting = inParallel(SETTERS, setPasswords)
    flooded.push(...(await measure()))
    isFlooding = false
    await setting
  }
  const median = (times: number[]) => times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0
  t.diagnostic(
    `login: ${median(alone).toFixed()} ms alone, ${median(flooded).toFixed()} ms while ${set} passwords were set and ${refused} refused`,
  )
  assert.ok(set > 0)
})
