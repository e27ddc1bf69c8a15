// "throttle list" with more rows and users than fit into a page.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { listThrottle } from '../src/admin/operations/throttle.ts'
import { type ScopeState, waitsUntil } from '../src/domain/throttle.ts'
import { digestOf } from '../src/identifiers.ts'
import { limitsOf } from '../src/login/scopes.ts'
import { ENGINES_BY_RUN, openTestStore } from './engines.ts'
import { changeAt } from './storage/fixtures.ts'

const NOW = new Date('2030-01-31T12:00:00.000Z')
const ROWS = 25_000
const BUDGETS = { pair: 5, email: 20, client: 50, network: 500 }
const NOTHING = { dailyFailures: 0, failures: 0, key: '' }

for (const engine of ENGINES_BY_RUN) {
  describe(`a large throttle on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const deps = {
      ...{ store, budgets: BUDGETS, clock: () => NOW },
      ...{ by: changeAt().by, hashPassword: async () => '' },
      passwordRules: { minLength: 8, brandName: '', toOverrule: '' },
    }
    const at = (minutes: number) => {
      const text = `'${new Date(NOW.getTime() + minutes * 60_000).toISOString()}'`
      return engine === 'sqlite' ? text : `${text}::timestamptz`
    }
    const digest = `${engine === 'sqlite' ? `printf('%08x', r)` : `lpad(to_hex(r), 8, '0')`} || '${'0'.repeat(56)}'`
    const series = `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${ROWS}),
      r as (select i, cast(i as bigint) * 2654435761 % 4294967296 as r from n)`

    test('reads the rows that may be above a floor or wait, and no others', async () => {
      const key = 'a'.repeat(64)
      const isRead = async (row: number[], floor: number[], floorKey = '', blocked = 'null') => {
        const [day = 0, ...counts] = row
        await database.rows(`insert into login_throttle (key, scope, email_digest, failures,
            pending, lease_ends_at, window_ends_at, blocked_until, clears_at, expires_at)
          values ('${key}', 'email', '${key}', ${counts}, ${at(-1)}, ${at(5)}, ${blocked}, ${at(15 * day)}, ${at(99)})`)
        const [dailyFailures = 0, failures = 0] = floor
        const above = { emails: { dailyFailures, failures, key: floorKey }, clients: NOTHING }
        const { scopes } = await store.throttle.list(0, limitsOf(BUDGETS), NOW, above)
        await database.rows(`delete from login_throttle where key = '${key}'`)
        return scopes.length === 1
      }
      // Failures for the day, failures and pending attempts, and a floor of the first two.
      assert.ok(await isRead([3, 0, 0], [2, 9]))
      assert.ok(!(await isRead([3, 0, 0], [4, 0])))
      assert.ok(await isRead([2, 3, 0], [2, 2]))
      assert.ok(!(await isRead([2, 3, 0], [2, 3])))
      assert.ok(await isRead([2, 3, 0], [2, 3], 'b'), 'the same counts, but an earlier key')
      assert.ok(!(await isRead([2, 3, 0], [2, 3], key)))
      assert.ok(!(await isRead([2, 3, 0], [2, 4], 'b')))
      assert.ok(await isRead([0, 3, 0], [0, 2]), 'all failures for the day are forgiven')
      assert.ok(await isRead([0, 0, 1], [999, 0]), 'a pending attempt may be a failure')
      assert.ok(await isRead([0, 20, 0], [999, 0]), 'its failures are used up')
      assert.ok(!(await isRead([0, 19, 0], [999, 0])))
      assert.ok(await isRead([100, 0, 0], [999, 0]), 'those for the day are used up')
      assert.ok(!(await isRead([99, 0, 0], [999, 0])))
      assert.ok(await isRead([0, 1, 0], [999, 0], '', at(1)), 'it is blocked')
      assert.ok(!(await isRead([0, 1, 0], [999, 0])))
    })

    test('lists the same as if every row had been compared', async () => {
      // A time for each number of failures for the day.
      const clearsAt = Array.from({ length: 101 }, (_, day) => `when ${day} then ${at(15 * day)}`)
      await database.rows(`insert into login_throttle (key, scope, email_digest, failures,
          pending, lease_ends_at, window_ends_at, clears_at, blocked_until, expires_at) ${series}
        select ${digest},
          case i % 4 when 0 then 'email' when 1 then 'client' when 2 then 'network' else 'pair' end,
          case when i % 4 in (0, 3) then ${digest} end, r % 23,
          case when r % 7 = 0 then r % 5 else 0 end,
          case when r % 3 = 0 then ${at(-1)} else ${at(1)} end,
          case when r % 11 = 0 then ${at(-1)} else ${at(5)} end,
          case when i % 4 = 0 then case r % 101 ${clearsAt.join(' ')} end end,
          case when r % 13 = 0 then ${at(5)} when r % 13 = 1 then ${at(-1)} end, ${at(99)} from r`)
      const all: ScopeState[] = []
      for (let from: number | null = 0; from !== null; ) {
        const above = { emails: NOTHING, clients: NOTHING }
        const page: Awaited<ReturnType<typeof store.throttle.list>> = await store.throttle.list(
          ...([from, limitsOf(BUDGETS), NOW, above] as const),
        )
        all.push(...page.scopes)
        from = page.next
      }
      assert.ok(all.length > ROWS / 2)
      const names = new Set(all.map(({ name }) => name))
      assert.deepEqual([...names].toSorted(), ['client', 'email', 'network'])
      const first = (names: string[]) =>
        all
          .filter(({ name }) => names.includes(name))
          .toSorted(
            (a, b) =>
              b.dailyFailures - a.dailyFailures ||
              b.failures - a.failures ||
              (a.key < b.key ? -1 : 1),
          )
          .map(({ key }) => key)
      const waiting = { email: 0, client: 0, network: 0 }
      for (const state of all) {
        if (waitsUntil(state, NOW) && state.name in waiting) waiting[state.name as 'email']++
      }
      assert.ok(waiting.email > 100 && waiting.client > 100 && waiting.network > 100)
      for (const top of [1, 20, 300]) {
        const list = await listThrottle(deps, top)
        const keys = (scopes: { digest: string }[]) => scopes.map(({ digest }) => digest)
        assert.deepEqual(keys(list.emails), first(['email']).slice(0, top))
        assert.deepEqual(keys(list.clients), first(['client', 'network']).slice(0, top))
        assert.deepEqual(list.waiting, waiting)
      }
    })

    test('names the emails of users that failed, logged in or changed lately', async () => {
      await database.rows(`insert into users (email, password_hash, name, updated_at) ${series}
        select 'user' || i || '@example.com', '-', 'X', ${at(-99_999)} from r`)
      const emails = [1, 2, 3, 4].map(i => `user${i * 6_000}@example.com`)
      const [failed, loggedIn, changed] = emails
      await database.rows(`update users set failures_since_login = 1 where email = '${failed}'`)
      await database.rows(`update users set last_login_at = ${at(-1)} where email = '${loggedIn}'`)
      await database.rows(`update users set updated_at = ${at(-1)} where email = '${changed}'`)
      for (const [i, email] of emails.entries()) {
        await database.rows(`insert into login_throttle (key, scope, email_digest, failures,
            pending, lease_ends_at, window_ends_at, clears_at, expires_at)
          values ('${digestOf(email)}', 'email', '${digestOf(email)}', 1, 0, ${at(-1)},
            ${at(5)}, ${at(15 * (199 - i))}, ${at(99)})`)
      }
      const list = await listThrottle(deps, 4)
      assert.deepEqual(
        list.emails.map(({ email }) => email),
        [failed, loggedIn, changed, null],
      )
      const stored: string[] = []
      for (let from: number | null = 0; from !== null; ) {
        const page: Awaited<ReturnType<typeof store.users.listEmails>> =
          await store.users.listEmails(from)
        stored.push(...page.emails)
        from = page.next
      }
      assert.equal(new Set(stored).size, ROWS)
      assert.equal(stored.length, ROWS)
    })
  })
}
