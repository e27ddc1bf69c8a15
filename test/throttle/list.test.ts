// "throttle list" with more rows and users than it reads at once.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { listThrottle } from '../../src/admin/operations/read-throttle.ts'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import { waitsUntil } from '../../src/domain/throttle.ts'
import { emailScope, limitsOf } from '../../src/login/scopes.ts'
import { ENGINES_BY_RUN, openTestStore } from '../support/engines.ts'

const NOW = new Date('2030-01-31T12:00:00.000Z')
const ROWS = 12_000
const BUDGETS = { pair: 5, email: 20, client: 22, network: 22 }

for (const engine of ENGINES_BY_RUN) {
  describe(`a large throttle on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const deps = { store, budgets: BUDGETS, clock: () => NOW }
    const at = (minutes: number) => {
      const text = `'${new Date(NOW.getTime() + minutes * 60_000).toISOString()}'`
      return engine === 'sqlite' ? text : `${text}::timestamptz`
    }
    const digest = `${engine === 'sqlite' ? `printf('%08x', r)` : `lpad(to_hex(r), 8, '0')`} || '${'0'.repeat(56)}'`
    const series = `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${ROWS}),
      r as (select i, cast(i as bigint) * 2654435761 % 4294967296 as r from n)`

    test('lists the same clients as if every row had been compared', async () => {
      // A pending attempt whose lease is over is a failure; windows and blocks may be over.
      await database.rows(`insert into login_throttle (key, scope, email_digest, failures,
          pending, lease_ends_at, window_ends_at, blocked_until, expires_at) ${series}
        select ${digest},
          case i % 4 when 0 then 'email' when 1 then 'client' when 2 then 'network' else 'pair' end,
          case when i % 4 in (0, 3) then ${digest} end, r % 23, case when r % 23 = 22 then 1 else 0 end,
          case when r % 3 = 0 then ${at(-1)} else ${at(1)} end,
          case when r % 11 = 0 then ${at(-1)} else ${at(5)} end,
          case when r % 23 = 22 and r % 2 = 0 then ${at(5)} end, ${at(99)} from r`)
      const rows = await database.rows(
        'select key, scope from login_throttle where failures > 0 and email_digest is null',
      )
      const limits = limitsOf(BUDGETS)
      const scopes = rows.map(({ key, scope }) => {
        const name = scope as ThrottleScope['name']
        return { name, key: String(key), emailDigest: null, ...limits[name] }
      })
      const states = (await store.throttle.read(scopes, NOW)).filter(state => state.failures > 0)
      const first = states
        .filter(({ windowEndsAt }) => windowEndsAt)
        .toSorted((a, b) => b.failures - a.failures || (a.key < b.key ? -1 : 1))
      const waiting = (name: string) =>
        first.filter(state => state.name === name && waitsUntil(state, NOW)).length
      assert.ok(waiting('client') > 50 && waiting('network') > 50)
      for (const top of [1, 300]) {
        const list = await listThrottle(deps, top)
        assert.deepEqual(
          list.clients.map(({ digest, failures }) => [digest, failures]),
          first.slice(0, top).map(({ key, failures }) => [key, failures]),
        )
        const counts = { email: 0, client: waiting('client'), network: waiting('network') }
        assert.deepEqual(list.waiting, counts)
      }
    })

    test('lists the users that wait behind many locks that are over, the worst first', async () => {
      const insertUsers = (email: string, rows: number, until: string) =>
        database.rows(`insert into users (email, password_hash, name, locked_until, locked_by)
          ${series} select ${email}, '-', 'X', ${until}, 'throttle' from r where i <= ${rows}`)
      await insertUsers(`'a' || i || '@example.com'`, ROWS, at(-1))
      await insertUsers(`'z' || i || '@example.com'`, 3, at(5))
      for (const [i, day] of [20, 40, 30].entries()) {
        const { key, emailDigest } = emailScope(`z${i + 1}@example.com`, BUDGETS)
        await database.rows(`insert into login_throttle (key, scope, email_digest, failures, pending,
            lease_ends_at, window_ends_at, blocked_until, clears_at, expires_at)
          values ('${key}', 'email', '${emailDigest}', 20, 0, ${at(-1)}, ${at(5)}, ${at(5)},
            ${at(15 * day)}, ${at(999)})`)
      }
      const { emails, waiting } = await listThrottle(deps, 2)
      assert.deepEqual(
        emails.map(({ email, dailyFailures, waitsUntil }) => [email, dailyFailures, waitsUntil]),
        [
          ['z2@example.com', 40, new Date(NOW.getTime() + 5 * 60_000)],
          ['z3@example.com', 30, new Date(NOW.getTime() + 5 * 60_000)],
        ],
      )
      assert.equal(waiting.email, 3)
    })
  })
}
