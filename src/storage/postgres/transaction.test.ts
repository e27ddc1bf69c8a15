import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { sql } from 'kysely'
import { createTestDatabase } from '../../../test/support/engines.ts'
import { prepare, run, type Steps, send } from '../sql/prepared.ts'
import { openPostgres } from './engine.ts'

const add = prepare<{ value: number }, { value: number }>(
  ({ value }) => sql`insert into numbers (value) values (${value}) returning value`,
)

describe('a transaction of pipelined statements', async () => {
  const database = await createTestDatabase('postgres')
  if (database.config.engine !== 'postgres') throw new Error('not PostgreSQL')
  // One connection: what a transaction leaves behind would be in the way of the next one.
  const engine = openPostgres({
    ...{ ...database.config, poolSize: 1 },
    ...{ onConnectionLost: () => {}, operationTimeoutMs: 60_000 },
  })
  after(async () => {
    await engine.close()
    await database.drop()
  })
  await database.rows('create table numbers (value integer check (value > 0))')

  const pidOf = async () => (await sql`select pg_backend_pid() as pid`.execute(engine.db)).rows
  const numbers = async () => {
    const rows = await database.rows('select value from numbers order by value')
    await database.rows('truncate numbers')
    return rows.map(({ value }) => value)
  }

  test('has the rows of each statement after the next one that is waited for', async () => {
    const values = await engine.inTransaction(function* (): Steps<number[]> {
      const first = yield* send(add, { value: 1 })
      assert.throws(() => first.rows, /were read before/)
      const second = yield* run(add, { value: 2 })
      yield* send(add, { value: 3 })
      return [...first.rows, ...second].map(({ value }) => value)
    })
    assert.deepEqual(
      [values, await numbers()],
      [
        [1, 2],
        [1, 2, 3],
      ],
    )
  })

  const FAILURES: Record<string, [steps: () => Steps<unknown>, error: RegExp]> = {
    'an error of a statement that nothing waits for': [
      function* () {
        yield* send(add, { value: 1 })
        yield* send(add, { value: -2 })
        yield* send(add, { value: 3 })
      },
      /violates check constraint/,
    ],
    'an error before others that are waited for': [
      function* () {
        yield* send(add, { value: -1 })
        yield* run(add, { value: 2 })
      },
      /violates check constraint/,
    ],
    'an error of a rule while statements are on their way': [
      function* () {
        yield* send(add, { value: 1 })
        throw new Error('a rule failed')
      },
      /a rule failed/,
    ],
  }
  for (const [name, [steps, error]] of Object.entries(FAILURES)) {
    test(`${name} undoes all of it, and leaves the connection good for others`, async () => {
      const before = await pidOf()
      await assert.rejects(engine.inTransaction(steps), error)
      assert.deepEqual(await pidOf(), before)
      await engine.inTransaction(() => send(add, { value: 9 }))
      assert.deepEqual(await numbers(), [9])
    })
  }
})
