// The list of users: states, search, roles and pages, on both engines.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { USER_STATES, type User, type UserFilter } from '../../src/domain/user.ts'
import { userState } from '../../src/login/user-state.ts'
import { ENGINES, openTestStore } from '../support/engines.ts'

const NOW = new Date('2030-01-31T12:00:00.000Z')
const at = (minutes: number) => new Date(NOW.getTime() + minutes * 60_000)

for (const engine of ENGINES) {
  describe(`the list of users on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)

    const literal = (value: string | null) =>
      value === null ? 'null' : `'${value.replaceAll("'", "''")}'`
    async function insert(users: (Partial<User> & { email: string })[]): Promise<void> {
      const isTrue = engine === 'sqlite' ? ['0', '1'] : ['false', 'true']
      const rows = users.map(user =>
        [
          ...[literal(user.email), `'a hash'`, literal(user.name ?? 'Name')],
          ...[literal(user.role ?? 'user'), isTrue[Number(user.isActive ?? true)]],
          ...[literal(user.lockedUntil?.toISOString() ?? null), literal(user.lockedBy ?? null)],
        ].join(', '),
      )
      await database.rows(`insert into users
        (email, password_hash, name, role, is_active, locked_until, locked_by)
        values ${rows.map(row => `(${row})`).join(', ')}`)
    }

    /** All pages; with how many calls. */
    async function list(filter: UserFilter, limit = 1_000) {
      const emails: string[] = []
      let pages = 0
      for (let after: string | null = ''; after !== null; pages++) {
        const page = await store.users.list(filter, { after, limit }, NOW)
        assert.ok(page.users.length <= limit)
        emails.push(...page.users.map(user => user.email))
        after = page.next
      }
      return { emails, pages }
    }
    const emailsOf = async (filter: UserFilter, limit?: number) =>
      (await list(filter, limit)).emails

    test('every user is in one state: that of its row and the clock', async () => {
      const ends = [null, at(-1), NOW, at(1 / 60_000), at(15), at(30), at(31), at(60 * 24 * 365)]
      const users = [true, false].flatMap(isActive =>
        ([null, 'throttle', 'administrator'] as const).flatMap(lockedBy =>
          ends.map((lockedUntil, i) => ({
            email: `${isActive}-${lockedBy}-${i}@states.example`,
            ...{ isActive, lockedBy, lockedUntil },
          })),
        ),
      )
      await insert(users)
      for (const state of USER_STATES) {
        const expected = users.filter(user => userState(user, NOW) === state)
        assert.ok(expected.length > 0, state)
        const listed = await emailsOf({ state, search: '@states.example' })
        assert.deepEqual(listed.toSorted(), expected.map(({ email }) => email).toSorted(), state)
      }
      const locked = await emailsOf({ state: 'locked' })
      assert.ok(locked.includes('true-null-4@states.example'), 'a lock without locked_by')
    })

    test('a search finds a part of the email or the name; only ASCII letters match in both cases', async () => {
      await insert([
        { email: 'percent%25@search.example', name: 'A_B' },
        { email: 'plain@search.example', name: 'Zoë AXB' },
        { email: 'UPPER@search.example', name: "O'Neill \\ 100%" },
        { email: 'greek@search.example', name: 'Ωmega ÄÖ' },
      ])
      for (const [expected, ...searches] of [
        [['UPPER', 'percent%25'], '%'],
        [['percent%25'], '_', 'a_b'],
        [['UPPER'], 'upper@SEARCH', "o'n", '\\'],
        [['plain'], 'zoë'],
        [['greek'], 'ÄÖ', 'ΩMEGA'],
        [[], 'zoË', 'äö', 'ωmega', 'nothing like this', "' or 1=1 --", '\n'],
        [[], 'search.example\nzoë'],
      ] as const) {
        for (const search of searches) {
          const found = await emailsOf({ search })
          const names = found.map(email => email.replace('@search.example', ''))
          assert.deepEqual(names.toSorted(), expected, search)
        }
      }
    })

    test('conditions combine; pages of any size have every user once, in order', async () => {
      const users = Array.from({ length: 25 }, (_, i) => ({
        email: `u${String(i).padStart(2, '0')}@pages.example`,
        role: i % 3 === 0 ? 'odd role' : 'user',
        isActive: i % 4 !== 0,
      }))
      await insert(users)
      const odd = users.filter(({ role }) => role === 'odd role')
      const activeFrom10 = odd.filter(({ isActive, email }) => isActive && email[1] === '1')
      for (const [filter, expected] of [
        [{ role: 'odd role' }, odd],
        [{ role: 'odd role', state: 'inactive' }, odd.filter(({ isActive }) => !isActive)],
        [{ role: 'odd role', state: 'active', search: 'U1' }, activeFrom10],
        [{ role: 'no such role' }, []],
      ] as const) {
        const emails = expected.map(({ email }) => email)
        for (const limit of [1, 2, 3, 8, 9, 1_000]) {
          assert.deepEqual(await emailsOf(filter, limit), emails)
        }
      }
      const { pages } = await list({ role: 'odd role' }, 9)
      assert.equal(pages, 1, 'the last page has no next')
    })

    test('the kinds of second factors are listed, and users without one or with any are found', async () => {
      const KINDS = { none: [], totp: ['totp'], passkey: ['passkey', 'passkey'] }
      const kinds = Object.entries({ ...KINDS, 'totp+passkey': ['totp', 'passkey', 'passkey'] })
      const emailOf = (name: string) => `${name}@factors.example`
      await insert(kinds.map(([name]) => ({ email: emailOf(name) })))
      for (const [name, factors] of kinds) {
        for (const [i, kind] of factors.entries()) {
          await database.rows(`insert into second_factors (user_id, kind, secret, credential_id)
            select id, '${kind}', '-', ${kind === 'totp' ? 'null' : `'${i}'`}
            from users where email = '${emailOf(name)}'`)
        }
      }
      const search = '@factors.example'
      const { users } = await store.users.list({ search }, { after: '', limit: 10 }, NOW)
      const listed = users.map(({ email, secondFactor }) => [email, secondFactor])
      const expected = kinds.map(([name]) => [emailOf(name), name])
      assert.deepEqual(listed.toSorted(), expected.toSorted())
      assert.deepEqual(await emailsOf({ search, secondFactor: 'none' }), [emailOf('none')])
      const others = Object.keys(KINDS).slice(1).concat('totp+passkey').map(emailOf)
      assert.deepEqual(await emailsOf({ search, secondFactor: 'any' }), others.toSorted())
      assert.deepEqual(await emailsOf({ search, secondFactor: 'any', state: 'locked' }), [])
      assert.equal(await store.secondFactors.countUsers(), 3)
    })

    test('a search looks at 10,000 users per page, so pages may be empty', async () => {
      await database.rows(`with recursive n (i) as (select 1 union all select i + 1 from n where i < 20500)
        insert into users (email, password_hash, name) select 'many' || i || '@example.com', '-', 'X' from n`)
      await insert([{ email: 'zz-last@example.com', name: 'Needle' }])
      const { emails, pages } = await list({ search: 'needle' })
      assert.deepEqual(emails, ['zz-last@example.com'])
      assert.equal(pages, 3)
      const first = await store.users.list({ search: 'needle' }, { after: '', limit: 5 }, NOW)
      assert.deepEqual(first.users, [])
      assert.notEqual(first.next, null)
      const withAny = await list({ secondFactor: 'any', search: 'many' })
      assert.deepEqual([withAny.emails, withAny.pages], [[], 3])
    })
  })
}
