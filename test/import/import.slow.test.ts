// Imports in processes of their own: interrupted, at the same time, and from a pipe.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import bcrypt from 'bcrypt'
import { ENGINES } from '../support/engines.ts'
import { NO_FSYNC, startPostgres } from '../support/postgres-server.ts'
import { IS_FULL } from '../support/proof.ts'
import { counts, csvOf, passwordsIn, rowsOf, setUpImports, TEMPORARY } from './import-cli.ts'

/** SQLite waits for nothing, so there an interruption is harder to notice. */
const SIGNALS = ['SIGINT', 'SIGKILL'] as const

for (const [i, engine] of ENGINES.entries()) {
  for (const signal of IS_FULL ? SIGNALS : SIGNALS.slice(i, i + 1)) {
    test(`an import with temporary passwords goes on with the same ones after ${signal}, on ${engine}`, async () => {
      const cli = await setUpImports(engine)
      const many = 600
      const all = rowsOf(many)
      const emails = all.match(/\S+@[^,]+/g) ?? []
      const child = cli.spawnImport('-', ...TEMPORARY)
      // The next run would not start beside rejected rows: an interrupted one does not write them.
      child.stdin.end(`${all},no email\n`)
      const { said } = await cli.hasStored(child)
      child.kill(signal)
      const [code] = await once(child, 'close')
      if (signal === 'SIGINT') {
        assert.equal(code, 1)
        assert.match(
          said(),
          /Users that were stored stay; run the command again to continue\.\nInterrupted\.\n$/,
        )
      }
      const stored = (await cli.users()).length
      const first = await passwordsIn(cli.pathOf('stdin.passwords'))
      assert.ok(stored > 0 && stored < many && first.length === many)

      const ended = await cli.run(['users', 'import', '-', '--json', ...TEMPORARY], all)
      assert.equal(ended.code, 0, ended.stderr)
      assert.deepEqual(JSON.parse(ended.stdout), {
        ...counts(many - stored, 0, stored, 0),
        temporary: many - stored,
      })
      const last = await passwordsIn(cli.pathOf('stdin.passwords'))
      assert.deepEqual(last, first)
      assert.deepEqual(
        last.map(({ email }) => email),
        emails,
      )
      const users = new Map((await cli.users()).map(user => [user.email, user]))
      for (const { email, password } of last) {
        const user = users.get(email)
        assert.ok(await bcrypt.compare(password, String(user?.password_hash)), email)
        assert.ok(user?.temporary_until, email)
      }
      assert.equal(await cli.events(), many)
    })
  }
}

test('a database that goes away ends an import of 30,000 users, and the next run continues', async t => {
  const server = await startPostgres(NO_FSYNC)
  const cli = await setUpImports('postgres', server.url)
  t.after(() => server.stop())
  const rows = 30_000
  await writeFile(cli.pathOf('u.csv'), csvOf(rows))
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

test('a named pipe can be imported', async () => {
  const cli = await setUpImports()
  const pipe = cli.pathOf('pipe.csv')
  await once(spawn('mkfifo', [pipe]), 'close')
  const child = cli.spawnImport('pipe.csv', '--json')
  await writeFile(pipe, csvOf(10))
  assert.deepEqual(JSON.parse(await text(child.stdout)), counts(10, 0, 0, 0))
})
