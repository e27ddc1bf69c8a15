// Large imports that are interrupted between two of the many batches of a file.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { ENGINES } from '../support/engines.ts'
import { NO_FSYNC, startPostgres } from '../support/postgres-server.ts'
import { counts, csvOf, HEADING, setUpImports } from './import-cli.ts'

for (const engine of ENGINES) {
  test(`a killed import of 20,000 users is finished by the next run, on ${engine}`, async t => {
    const cli = await setUpImports(t, engine)
    const rows = 20_000
    await writeFile(cli.pathOf('u.csv'), [`${HEADING}\n`, ...csvOf(rows)].join(''))
    const child = cli.spawnImport('u.csv')
    await cli.hasStored(child)
    child.kill('SIGKILL')
    await once(child, 'close')
    const stored = (await cli.users()).length
    assert.equal(await cli.events(), stored)
    const ended = await cli.run(['users', 'import', 'u.csv', '--json'])
    assert.deepEqual(JSON.parse(ended.stdout), counts(rows - stored, 0, stored, 0))
    assert.equal(await cli.events(), rows)
  })
}

test('a database that goes away ends an import of 60,000 users, and the next run continues', async t => {
  const server = await startPostgres(NO_FSYNC)
  const cli = await setUpImports(t, 'postgres', server.url)
  t.after(() => server.stop())
  const rows = 60_000
  await writeFile(cli.pathOf('u.csv'), [`${HEADING}\n`, ...csvOf(rows)].join(''))
  const child = cli.spawnImport('u.csv')
  const { said } = await cli.hasStored(child)
  await server.end('SIGKILL')
  const [code] = await once(child, 'close')
  assert.equal(code, 1)
  assert.match(
    said(),
    /^Reading .*\nSo far \d+ added.*run the command again to continue\.\nPostgreSQL .* cannot be used/s,
  )
  await server.start()
  const stored = (await cli.users()).length
  assert.ok(stored < rows)
  const ended = await cli.run(['users', 'import', 'u.csv', '--json'])
  assert.deepEqual(JSON.parse(ended.stdout), counts(rows - stored, 0, stored, 0))
})
