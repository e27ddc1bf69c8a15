// The tokens of the admin API, the same on every engine.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { NewAdminToken } from '../../src/domain/admin-token.ts'
import { fingerprintOf } from '../../src/system/identifiers.ts'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { DAY_MS } from '../support/session-client.ts'
import { changeAt, digest, eventsOf } from './fixtures.ts'

for (const engine of ENGINES) {
  describe(`admin tokens on ${engine}`, async () => {
    const { store } = await openTestStore(engine)
    const { adminTokens: tokens } = store
    const now = new Date('2030-01-01T00:00:00.000Z')
    const later = (ms: number) => new Date(now.getTime() + ms)
    const newToken = (given: Partial<NewAdminToken> = {}): NewAdminToken => ({
      ...{ name: randomUUID(), role: 'read', expiresAt: later(DAY_MS) },
      ...{ digest: digest(randomUUID()), ...given },
    })

    test('of parallel additions of one name, or of one digest, one succeeds and is recorded', async () => {
      for (const same of [{ name: 'same' }, { digest: digest('same') }]) {
        const added = Array.from({ length: 8 }, () => newToken(same))
        const done = await Promise.all(added.map(token => tokens.insert(token, changeAt(now))))
        const [winner, ...others] = added.filter((_, i) => done[i])
        assert.ok(winner && others.length === 0)
        const { digest: _, ...stored } = { ...winner, createdAt: now, lastUsedAt: null }
        assert.deepEqual(await tokens.find(winner.digest), stored)
        const events = await eventsOf(store, winner.name)
        const [fingerprint, expiresAt] = [fingerprintOf(winner.digest), later(DAY_MS).toISOString()]
        assert.deepEqual(
          events.map(({ action, after }) => [action, after]),
          [['token.added', { role: 'read', expiresAt, fingerprint }]],
        )
      }
    })

    test('a token is revoked once, and its name and digest can then be used again', async () => {
      const token = newToken()
      const change = changeAt(now)
      assert.ok(await tokens.insert(token, change))
      const done = await Promise.all([1, 2, 3].map(() => tokens.revoke(token.name, change)))
      assert.equal(done.filter(Boolean).length, 1)
      assert.equal(await tokens.find(token.digest), null)
      await tokens.touch(token.name, now)
      assert.ok(await tokens.insert(token, change))
    })

    test('pages of a list have all tokens once, and the purge removes those that ended 30 days ago', async () => {
      const ends = [-30 * DAY_MS, -30 * DAY_MS + 1, 0, 1].map(later)
      const added = ends.map((expiresAt, i) => newToken({ name: `z${i}`, expiresAt }))
      for (const token of added) assert.ok(await tokens.insert(token, changeAt(now)))
      const names = async () => {
        const all: string[] = []
        for (;;) {
          const page = await tokens.list({ after: all.at(-1) ?? 'z', limit: 2 })
          if (page.length === 0) return all
          all.push(...page.map(({ name }) => name))
        }
      }
      assert.deepEqual(await names(), ['z0', 'z1', 'z2', 'z3'])
      await store.maintenance.purge(now)
      assert.deepEqual(await names(), ['z1', 'z2', 'z3'])
    })
  })
}
