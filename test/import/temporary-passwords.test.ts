// users import --without-passwords temporary: users without a usable hash get temporary passwords, each one once.
import assert from 'node:assert/strict'
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { createCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { startTestService } from '../support/service.ts'
import { counts, HASH, passwordsIn, rowsOf, setUpImports, TEMPORARY } from './import-cli.ts'

const DJANGO = 'pbkdf2_sha256$600000$abc$c2FsdA=='
const FIREBASE = `${'aB3/'.repeat(21)}xy==`
const HOUR_MS = 3_600_000
const NEW_PASSWORD = 'seven green boats at noon'

/** Two hashed with another algorithm, one with bcrypt, one with none; not in the order of their emails. */
const MIXED = `email,name,passwordHash
zoe@example.org,Zoe,${DJANGO}
bob@example.org,Bob,${HASH}
kim@example.org,Kim,${FIREBASE}
ann@example.org,Ann,
`

for (const engine of ENGINES_BY_RUN) {
  describe(`an import with temporary passwords on ${engine}`, () => {
    test('writes them in the order of the file, and users log in by setting a new one', async () => {
      const service = await own(startTestService(engine))
      const cli = await own(createCli(service.database))
      const pathOf = (name: string) => `${cli.folder}/${name}`
      await writeFile(pathOf('u.csv'), MIXED)
      const run = async (...options: string[]) => {
        const args = ['users', 'import', 'u.csv', '--json', ...TEMPORARY, ...options]
        const { code, stdout, stderr } = await cli.run(args)
        assert.equal(code, 0, stderr)
        return { counted: JSON.parse(stdout), said: stderr }
      }
      const tried = await run('--dry-run')
      assert.deepEqual(tried.counted, { ...counts(4, 0, 0, 0), temporary: 3 })
      assert.match(tried.said, /3 users would get a temporary password, in u\.csv\.passwords\./)
      await assert.rejects(stat(pathOf('u.csv.passwords')), { code: 'ENOENT' })

      const startedMs = Date.now()
      const done = await run('--valid', '2h')
      assert.deepEqual(done.counted, tried.counted)
      assert.match(done.said, /3 users got a temporary password, in u\.csv\.passwords: hand them/)
      assert.equal((await stat(pathOf('u.csv.passwords'))).mode & 0o777, 0o600)
      const given = await passwordsIn(pathOf('u.csv.passwords'))
      assert.deepEqual(
        given.map(({ email }) => email),
        ['zoe@example.org', 'kim@example.org', 'ann@example.org'],
      )
      const { temporaryUntil } = (await service.store.users.findByEmail('zoe@example.org')) ?? {}
      const validMs = Number(temporaryUntil?.getTime()) - 2 * HOUR_MS
      assert.ok(validMs >= startedMs - 1_000 && validMs <= Date.now() + 1_000)
      assert.equal((await service.store.users.findByEmail('bob@example.org'))?.temporaryUntil, null)

      for (const { email, password } of given) {
        assert.match(password, /^(\w{4}-){4}\w{4}$/)
        const refused = await service.login(email, password)
        assert.deepEqual(
          [refused.status, refused.json.error.code],
          [403, 'PASSWORD_CHANGE_REQUIRED'],
        )
        const changed = await service.call({
          path: '/api/v1/auth/password',
          body: { email, currentPassword: password, newPassword: NEW_PASSWORD },
        })
        assert.equal(changed.status, 200)
        assert.equal((await service.login(email, NEW_PASSWORD)).status, 200)
      }

      // Users that exist keep their passwords.
      await writeFile(pathOf('u.csv'), `${MIXED.replace(',Zoe,', ',Zora,')}new@example.org,New,\n`)
      const again = await run('--update')
      assert.deepEqual(again.counted, { ...counts(1, 1, 3, 0), temporary: 1 })
      const both = await passwordsIn(pathOf('u.csv.passwords'))
      assert.deepEqual(both.slice(0, -1), given)
      assert.equal(both.at(-1)?.email, 'new@example.org')
      assert.equal((await service.login('zoe@example.org', NEW_PASSWORD)).status, 200)
    })
  })
}

test('temporary passwords are not written to a file of others, or beside other content', async () => {
  const cli = await setUpImports()
  await writeFile(cli.pathOf('u.csv.passwords'), 'email,password\r\n', { mode: 0o644 })
  await chmod(cli.pathOf('u.csv.passwords'), 0o644)
  const exposed = await cli.importFile('u.csv', rowsOf(4), ...TEMPORARY)
  assert.deepEqual([exposed.code, exposed.counts], [1, null])
  assert.match(exposed.said.join(), /u\.csv\.passwords is not yours, or not only yours to read/)
  await writeFile(cli.pathOf('v.csv.passwords'), 'shopping list\n', { mode: 0o600 })
  const other = await cli.importFile('v.csv', rowsOf(4), ...TEMPORARY)
  assert.match(other.said.join(), /v\.csv\.passwords does not have temporary passwords/)
  assert.equal(await readFile(cli.pathOf('v.csv.passwords'), 'utf8'), 'shopping list\n')
  assert.deepEqual(await cli.users(), [])
})
