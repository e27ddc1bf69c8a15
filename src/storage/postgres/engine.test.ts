import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { sql } from 'kysely'
import { createTestDatabase } from '../../../test/engines.ts'
import { SERVICE_OPERATION_TIMEOUT_MS } from '../sql/engine.ts'
import { openPostgres } from './engine.ts'

describe('a connection to PostgreSQL', async () => {
  const database = await createTestDatabase('postgres')
  after(() => database.drop())
  if (database.config.engine !== 'postgres') throw new Error('not PostgreSQL')
  const config = database.config
  const { url } = config

  /** Settings of a connection that the service opened, as the server reports them. */
  const settingsOf = async (address: string, ...names: string[]): Promise<string[]> => {
    const engine = openPostgres({
      ...config,
      url: address,
      onConnectionLost: () => {},
      operationTimeoutMs: SERVICE_OPERATION_TIMEOUT_MS,
    })
    try {
      const { rows } = await sql<{ settings: string[] }>`
        select array[${sql.join(names.map(name => sql`current_setting(${name})`))}] as settings`.execute(
        engine.db,
      )
      return rows[0]?.settings ?? []
    } finally {
      await engine.close()
    }
  }

  test('uses one plan for all values, also if the address has options of its own', async () => {
    const settings = await settingsOf(
      url,
      'plan_cache_mode',
      'enable_seqscan',
      'enable_bitmapscan',
      'jit',
    )
    assert.deepEqual(settings, ['force_generic_plan', 'off', 'off', 'off'])
    const own = new URL(url)
    own.searchParams.set('options', '-c work_mem=1234kB')
    assert.deepEqual(await settingsOf(own.toString(), 'plan_cache_mode', 'work_mem'), [
      'force_generic_plan',
      '1234kB',
    ])
  })

  test('fails if the server does not accept its options', async () => {
    const wrong = new URL(url)
    wrong.searchParams.set('options', '-c no_such_setting=1')
    await assert.rejects(settingsOf(wrong.toString(), 'work_mem'), /no_such_setting/)
  })

  test('behind a pooler has only the settings of its role, and lists those that are missing', async () => {
    const open = (hasPooler: boolean) =>
      openPostgres({
        ...config,
        hasPooler,
        onConnectionLost: () => {},
        operationTimeoutMs: SERVICE_OPERATION_TIMEOUT_MS,
      })
    const [direct, pooled] = [open(false), open(true)]
    try {
      assert.deepEqual(await direct.listMissingSettings(), [])
      const missing = await pooled.listMissingSettings()
      assert.equal(missing.length, 7)
      assert.equal(missing[0], 'alter role postgres set statement_timeout = 1300')
    } finally {
      await direct.close()
      await pooled.close()
    }
  })
})
