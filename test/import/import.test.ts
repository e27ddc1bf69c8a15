// users import and export, as an administrator uses them: rejected rows, passwords and files.
import assert from 'node:assert/strict'
import {
  chmod,
  chown,
  mkdir,
  open,
  readdir,
  readFile,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import type { AuditEvent } from '../../src/domain/audit.ts'
import { describeDatabase } from '../../src/storage/open-store.ts'
import { createCli, runInto } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { startTestService } from '../support/service.ts'
import { setUpEmptyCli } from '../support/transcripts.ts'
import {
  counts,
  csvOf,
  HASH,
  HEADING,
  PASSWORD,
  passwordsIn,
  rowsOf,
  setUpImports,
  TEMPORARY,
} from './import-cli.ts'

const ANN = { email: 'a@example.org', name: 'Ann', passwordHash: HASH }
const ndjsonOf = (...rows: object[]) => rows.map(row => JSON.stringify(row)).join('\n')

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

type Problem = [line: number, problem: string]
type Line = readonly [text: string | Buffer, problem: string | null]

/** The problems of a file whose first line with a user has this number. */
const problemsOf = (lines: Line[], first: number) =>
  lines.flatMap(([, problem], i): Problem[] => (problem === null ? [] : [[first + i, problem]]))

/** What is said of rejected rows: each reason once. */
function summary(problems: Problem[]): string[] {
  const byReason = Map.groupBy(problems, ([, problem]) => problem)
  return [...byReason].map(([problem, rows]) => {
    const lines = rows.map(([line]) => line).join(', ')
    const [counted, at] = rows.length === 1 ? ['1 row', 'line'] : [`${rows.length} rows`, 'lines']
    return `${counted} rejected: ${problem} (${at} ${lines}).`
  })
}

for (const engine of ENGINES_BY_RUN) {
  describe(`import and export on ${engine}`, () => {
    for (const format of ['csv', 'ndjson']) {
      test(`an export with hashes is a faithful copy, as ${format}`, async () => {
        const from = await setUpImports(engine)
        const to = await setUpImports(engine)
        const facts = [
          { isActive: false, role: 'admin', createdAt: '2001-02-03T04:05:06.789Z' },
          { lockedUntil: '2099-01-01T00:00:00Z' },
        ]
        const rows = ['Ann, "the" Ö', '=1+1', '-', 'Zoë'].map((name, i) => ({
          ...{ ...ANN, email: `u${i}@example.org`, name, ...facts[i] },
        }))
        const added = await from.importFile('u.ndjson', ndjsonOf(...rows))
        assert.deepEqual(added, { code: 0, counts: counts(4, 0, 0, 0), said: [] })
        const exportedWith = async (...options: string[]) =>
          (await from.run(['users', 'export', '--format', format, ...options])).stdout
        const copy = await exportedWith('--with-hashes')
        const importCopy = async (...options: string[]) => {
          const args = ['users', 'import', '-', '--from', format, '--json', ...options]
          return JSON.parse((await to.run(args, copy)).stdout)
        }
        assert.deepEqual(await importCopy(), counts(4, 0, 0, 0))
        const withoutUpdate = async (users: Promise<Record<string, unknown>[]>) =>
          (await users).map(({ updated_at: _, ...user }) => user)
        assert.deepEqual(await withoutUpdate(to.users()), await withoutUpdate(from.users()))
        assert.deepEqual(await importCopy('--update'), counts(0, 0, 4, 0))
        const bare = await exportedWith()
        assert.ok(!bare.includes('$2') && bare.includes('u3@example.org'))
        const at = '2030-01-02T03:04:05.000Z'
        await from.database.rows(`update users set last_login_at = '${at}'`)
        const dated = await exportedWith()
        assert.equal(dated.split(at).length, 5, 'the last login of each of the 4 users')
      })
    }

    test('only passwords of new and changed users are hashed, whatever the prefix of the stored hash', async () => {
      const cli = await setUpImports(engine)
      const hashes = ['$2a', '$2b', '$2y'].map(prefix => HASH.replace('$2b', prefix))
      const stored = hashes.map((hash, i) => `u${i}@example.org,U${i},user,${hash}\n`)
      await cli.importFile('h.csv', [`${HEADING}\n`, ...stored].join(''))
      const half = "replace(cast(id as text), '-', '')"
      await cli.database.rows(`insert into devices
        (id, user_id, token, last_used_at, expires_at, user_agent) select id, id, ${half} || ${half},
        '2030-01-01T00:00:00.000Z', '2099-01-01T00:00:00.000Z', '' from users`)
      const before = { users: await cli.users(), events: await cli.events() }
      const rows = [0, 1, 2].map(i => `u${i}@example.org,U${i},${PASSWORD}\n`)
      const file = ['email,name,password\n', ...rows].join('')
      const changed = file.replaceAll('horse', 'house')
      const importPasswords = async (content: string, ...options: string[]) =>
        (await cli.importFile('p.csv', content, '--hash-passwords', ...options)).counts
      const unchanged = counts(0, 0, 3, 0)
      assert.deepEqual(await importPasswords(file, '--update', '--dry-run'), unchanged)
      assert.deepEqual(await importPasswords(file, '--update'), unchanged)
      assert.deepEqual(await importPasswords(changed), unchanged)
      const updated = counts(0, 3, 0, 0)
      assert.deepEqual(await importPasswords(changed, '--update', '--dry-run'), updated)
      assert.deepEqual({ users: await cli.users(), events: await cli.events() }, before)
      assert.equal((await cli.database.rows('select id from devices')).length, 3)
      assert.deepEqual(await importPasswords(changed, '--update'), updated)
      await importPasswords('email,name,password\nu3@example.org,U3,correct house\n')
      const users = await cli.users()
      assert.equal(users.length, 4)
      for (const { password_hash } of users) {
        assert.ok(await bcrypt.compare('correct house', String(password_hash)))
      }
    })

    test('weak passwords are rejected unless they are allowed, and then recorded; short ones always are', async () => {
      const cli = await setUpImports(engine)
      const weak =
        'b@example.org,Bob,Sunshine\nc@example.org,Cecily,cecily!!\nd@example.org,Dan,seven77\n'
      const file = `email,name,password\na@example.org,Ann,${PASSWORD}\n${weak}`
      const rejected = await cli.importFile('p.csv', file, '--hash-passwords', '--dry-run')
      assert.deepEqual(rejected.counts, counts(1, 0, 0, 3))
      assert.match(
        rejected.said.join('\n'),
        /common.*\(line 3\)\.\n.*email or name.*\(line 4\)\.\n.* it has fewer than 8 .* \(line 5\)/,
      )
      const overruled = ['--hash-passwords', '--allow-weak']
      const imported = await cli.importFile('p.csv', file, ...overruled)
      assert.deepEqual(imported.counts, counts(3, 0, 0, 1))
      const other = file.replace('Sunshine', 'baseball')
      const updated = await cli.importFile('p.csv', other, ...overruled, '--update')
      assert.deepEqual(updated.counts, counts(0, 1, 2, 1))
      const events: AuditEvent[] = JSON.parse((await cli.run(['audit', 'list', '--json'])).stdout)
      assert.deepEqual(
        events
          .map(({ action, target, after }) => [target, action, after?.allowWeak === true])
          .toSorted(),
        [
          ['a@example.org', 'user.imported', false],
          ['b@example.org', 'password.set', true],
          ['b@example.org', 'user.imported', true],
          ['c@example.org', 'user.imported', true],
        ],
      )
    })

    test('temporary passwords are written in the order of the file, and users log in by setting a new one', async () => {
      const service = await own(startTestService(engine))
      const cli = await own(createCli(service.database))
      const pathOf = (name: string) => `${cli.folder}/${name}`
      const run = async (content: string, ...options: string[]) => {
        await writeFile(pathOf('u.csv'), content)
        const args = ['users', 'import', 'u.csv', '--json', ...TEMPORARY, ...options]
        const { code, stdout, stderr } = await cli.run(args)
        assert.equal(code, 0, stderr)
        return { counted: JSON.parse(stdout), said: stderr }
      }
      const tried = await run(MIXED, '--dry-run')
      assert.deepEqual(tried.counted, { ...counts(4, 0, 0, 0), temporary: 3 })
      assert.match(tried.said, /3 users would get a temporary password, in u\.csv\.passwords\./)
      await assert.rejects(stat(pathOf('u.csv.passwords')), { code: 'ENOENT' })

      const startedMs = Date.now()
      const done = await run(MIXED, '--valid', '2h')
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
      const changed = `${MIXED.replace(',Zoe,', ',Zora,')}new@example.org,New,\n`
      const again = await run(changed, '--update')
      assert.deepEqual(again.counted, { ...counts(1, 1, 3, 0), temporary: 1 })
      const both = await passwordsIn(pathOf('u.csv.passwords'))
      assert.deepEqual(both.slice(0, -1), given)
      assert.equal(both.at(-1)?.email, 'new@example.org')
      assert.equal((await service.login('zoe@example.org', NEW_PASSWORD)).status, 200)
    })
  })
}

test('malformed rows are reported with their lines, kept, and can be mended', async () => {
  const cli = await setUpImports()
  const ok = (email: string) => `${email},Ann,user,${HASH}`
  const long = 'x'.repeat(500_000)
  const lines: Line[] = [
    [ok('a@example.org'), null],
    ['too,few', 'the number of its fields is 2 instead of 4'],
    [`${ok('b@example.org')},more`, 'the number of its fields is 5 instead of 4'],
    ['"unclosed,Ann,user,x', 'a quote is not closed, or not at the start or the end of a field'],
    [ok('no-email'), 'This email cannot be used: it does not have the form name@domain'],
    [`,Ann,user,${HASH}`, 'email is missing'],
    [`d@example.org,Ann\0,user,${HASH}`, 'name must not have control characters or broken Unicode'],
    [
      `e@example.org,Ann,user,${HASH.slice(0, -1)}`,
      'passwordHash is not a bcrypt hash ($2a$, $2b$ or $2y$)',
    ],
    [
      `f@example.org,Ann,user,${HASH.replace('$04$', '$05$')}`,
      'passwordHash has the cost 5, which is above BCRYPT_COST (4)',
    ],
    [
      Buffer.from([0x67, 0xff, 0x2c]),
      'it is not valid UTF-8: if the file comes from Excel, add --encoding latin1',
    ],
    [long, 'the number of its fields is 1 instead of 4'],
    [ok('A@Example.org '), 'its email is also in line 2'],
    ['', null],
    [`"g@example.org","Ann",,"${HASH.replace('$2b$', '$2y$')}"`, null],
    ['truncated@example.org,An', 'the number of its fields is 2 instead of 4'],
  ]
  const texts = [
    '\ufeff',
    `${HEADING}\r\n`,
    ...lines.flatMap(([line]) => [line, '\r\n']).slice(0, -1),
  ]
  const file = Buffer.concat(texts.map(each => Buffer.from(each)))
  const problems = problemsOf(lines, 2)
  const said = summary(problems).map(each => each.replace('in line 2 (', 'in an earlier line ('))
  const trial = await cli.importFile('u.csv', file, '--dry-run')
  assert.deepEqual(trial, { code: 1, counts: counts(2, 0, 0, problems.length), said })
  assert.deepEqual(await cli.users(), [])
  await assert.rejects(stat(cli.pathOf('u.csv.rejected')))

  const ended = await cli.importFile('u.csv', file)
  assert.deepEqual(ended, trial)
  const stored = (await cli.users()).map(({ email, role }) => `${email} ${role}`)
  assert.deepEqual(stored, ['a@example.org user', 'g@example.org user'])
  const rejected = await readFile(cli.pathOf('u.csv.rejected'), 'utf8')
  const kept = rejected.trimEnd().split('\r\n')
  assert.equal(kept.shift(), `${HEADING},reason`)
  assert.equal(kept.length, problems.length)
  for (const [index, [line, problem]] of problems.entries()) {
    const start = String(lines[line - 2]?.[0]).slice(0, 60)
    const reason = problem.includes(',') ? `"${problem}"` : problem
    assert.ok(kept[index]?.startsWith(start) && kept[index].endsWith(`,${reason}`), start)
  }
  assert.equal((await stat(cli.pathOf('u.csv.rejected'))).mode & 0o777, 0o600)

  const mended = await cli.importFile('u.csv.rejected', `${HEADING}\n${ok('no@example.org')}\n`)
  assert.deepEqual(mended, { code: 0, counts: counts(1, 0, 0, 0), said: [] })
  const names = (await readdir(cli.folder)).filter(name => name.includes('u.csv'))
  assert.deepEqual(names.toSorted(), ['u.csv', 'u.csv.rejected'])
})

test('malformed rows of NDJSON are reported too', async () => {
  const cli = await setUpImports()
  const rowWith = (more: object) => JSON.stringify({ ...ANN, email: 'b@example.org', ...more })
  const unknown = (field: string) =>
    `"${field}" is not a field of a user: add --map COLUMN=FIELD, or --ignore-unknown`
  const noTime = 'createdAt takes a time such as 2030-01-31T12:00 (UTC) or 2030-01-31T12:00+09:00'
  await cli.importFile('u.ndjson', ndjsonOf(ANN))
  const [ann] = await cli.users()
  const otherId = 'its email and its id belong to different users, or the user has another id'
  const lines: [line: string, problem: string | null][] = [
    [JSON.stringify(ANN), null],
    ['', null],
    [rowWith({ id: ann?.id }), otherId],
    ['{"email":', 'it is not valid JSON'],
    ['[]', 'it is not a JSON object'],
    ['null', 'it is not a JSON object'],
    [rowWith({ admin: true }), unknown('admin')],
    [`{"__proto__":{},"email":"b@example.org"}`, unknown('__proto__')],
    [rowWith({ name: 5 }), 'name must be text'],
    [rowWith({ isActive: 'nope' }), 'isActive must be true or false'],
    [rowWith({ id: '5' }), 'id is not a UUID: --map id= leaves it out'],
    [rowWith({ createdAt: '0000-01-01' }), noTime],
    [rowWith({ createdAt: '9999-12-31T23:59-12:00' }), noTime],
    [rowWith({ password: 'x' }), unknown('password')],
    [rowWith({}).slice(0, -1), 'it is not valid JSON'],
  ]
  const ended = await cli.importFile('u.ndjson', lines.map(([line]) => line).join('\n'))
  const problems = problemsOf(lines, 1)
  assert.deepEqual([ended.code, ended.counts], [1, counts(0, 0, 1, problems.length)])
  assert.deepEqual(ended.said.toSorted(), summary(problems).toSorted())
  const rejected = await readFile(cli.pathOf('u.ndjson.rejected'), 'utf8')
  assert.deepEqual(
    rejected.trimEnd().split('\n'),
    problems.map(([line, problem]) => {
      const text = lines[line - 1]?.[0] ?? ''
      // What is no object cannot take a reason.
      if (problem.startsWith('it is not')) return text
      return `${text.slice(0, -1)},"reason":${JSON.stringify(problem)}}`
    }),
  )
})

test('an export to a file is readable by its owner only, replaces no file, and is what is printed otherwise', async () => {
  const cli = await setUpImports()
  await cli.importFile('h.csv', csvOf(3))
  const args = ['users', 'export', '--with-hashes']
  const printed = await cli.run(args)
  const written = await cli.run([...args, '--output', 'copy.ndjson'])
  assert.deepEqual([written.code, written.stdout], [0, ''])
  const logged = { event: 'admin.users_exported', users: 3, withHashes: true }
  const line = JSON.parse(written.stderr)
  assert.partialDeepStrictEqual(line, { ...logged, msg: 'Wrote 3 users to copy.ndjson.' })
  assert.equal(await readFile(cli.pathOf('copy.ndjson'), 'utf8'), printed.stdout)
  assert.equal((await stat(cli.pathOf('copy.ndjson'))).mode & 0o777, 0o600)

  for (const [output, problem] of [
    ['copy.ndjson', /^copy\.ndjson exists already: /],
    ['missing/copy.ndjson', /^missing\/copy\.ndjson cannot be written: ENOENT/],
  ] as const) {
    const { code, stderr } = await cli.run([...args, '--output', output, '--format', 'csv'])
    assert.equal(code, 1)
    assert.match(stderr, problem)
  }
  assert.equal(await readFile(cli.pathOf('copy.ndjson'), 'utf8'), printed.stdout)
  await cli.database.rows('alter table users rename to away')
  assert.equal((await cli.run([...args, '--output', 'part.ndjson'])).code, 1)
  await assert.rejects(stat(cli.pathOf('part.ndjson')), { code: 'ENOENT' })
})

test('an export with hashes into a file that others can read warns, and does not otherwise', async () => {
  const cli = await setUpImports()
  await cli.importFile('h.csv', csvOf(1))
  const warned = async (mode: number, ...options: string[]) => {
    const file = await open(cli.pathOf('out'), 'w', 0o600)
    await file.chmod(mode)
    const { code, stderr } = await runInto(cli, file.fd, ['users', 'export', ...options])
    await file.close()
    assert.equal(code, 0)
    assert.match(await readFile(cli.pathOf('out'), 'utf8'), /user0@example\.org/)
    return stderr
  }
  const warning = /^Warning: other users of this machine can read this file.*--output/
  const none = /^\{.*"event":"admin\.users_exported"/
  assert.match(await warned(0o644, '--with-hashes'), warning)
  assert.match(await warned(0o604, '--with-hashes', '--format', 'csv'), warning)
  assert.match(await warned(0o600, '--with-hashes'), none)
  assert.match(await warned(0o644), none)
  assert.match((await cli.run(['users', 'export', '--with-hashes'])).stderr, none)
})

test('files that cannot be read or written, and rejected rows of another input, end the import', async () => {
  const cli = await setUpImports()
  await mkdir(cli.pathOf('folder.csv'))
  await writeFile(cli.pathOf('stdin.rejected'), '')
  await mkdir(cli.pathOf('u.csv.rejected'))
  await writeFile(cli.pathOf('u.csv'), `${HEADING}\n,,,\n`)
  for (const [file, said] of [
    ['missing.csv', /^missing\.csv cannot be read: ENOENT/],
    ['folder.csv', /^folder\.csv cannot be read: EISDIR/],
    ['-', /^stdin\.rejected may have rows/],
    ['u.csv', /\nThe rejected rows cannot be written to u\.csv\.rejected: /],
  ] as const) {
    const { code, stderr } = await cli.run(['users', 'import', file])
    assert.equal(code, 1, file)
    assert.match(stderr, said)
  }
  const names = await readdir(cli.folder)
  assert.ok(!names.some(name => name.endsWith('.tmp')))
  assert.deepEqual(await cli.users(), [])
})

for (const engine of ENGINES_BY_RUN) {
  test(`a dry run works on a ${engine} database without tables, names it, and leaves it so`, async () => {
    const cli = await setUpEmptyCli(engine)
    await writeFile(`${cli.folder}/u.csv`, csvOf(2))
    for (const [options, where] of [
      [['--dry-run'], ', which is not set up yet.'],
      [['--dry-run'], ', which is not set up yet.'],
      [[], '.'],
      [['--dry-run'], '.'],
    ] as const) {
      const { code, stderr } = await cli.run(['users', 'import', 'u.csv', ...options])
      assert.equal(code, 0, stderr)
      const database = describeDatabase(cli.database.config)
      const line = `Reading u.csv as CSV with commas into ${database}${where}`
      assert.ok(stderr.split('\n').includes(line), stderr)
    }
  })
}

test('a further import replaces or removes the rejected rows of an earlier one', async () => {
  const cli = await setUpImports()
  const rejected = () => readFile(cli.pathOf('u.ndjson.rejected'), 'utf8')
  await cli.importFile('u.ndjson', '{}\n{"email":"x"}\n')
  assert.equal((await rejected()).split('\n').length, 3)
  await cli.importFile('u.ndjson', '{}\n')
  assert.equal(await rejected(), '{"reason":"email is missing"}\n')
  await cli.importFile('u.ndjson', ndjsonOf(ANN), '--dry-run')
  assert.equal(await rejected(), '{"reason":"email is missing"}\n')
  await cli.importFile('u.ndjson', ndjsonOf(ANN))
  await assert.rejects(rejected(), { code: 'ENOENT' })
})

test('rejected rows are not handed to a user that has made their file before, nor written through a link', {
  skip: process.getuid?.() !== 0 && 'only root can give files away',
}, async () => {
  const cli = await setUpImports()
  const path = cli.pathOf('u.ndjson.rejected')
  await writeFile(path, 'old', { mode: 0o640 })
  await chown(path, 1, 2)
  await cli.importFile('u.ndjson', '{}\n')
  const { uid, gid, mode } = await stat(path)
  assert.deepEqual([uid, gid, mode & 0o777], [0, process.getgid?.(), 0o600])
  await writeFile(cli.pathOf('target'), 'old')
  await symlink('target', cli.pathOf('v.ndjson.rejected'))
  await cli.importFile('v.ndjson', '{}\n')
  assert.equal(await readFile(cli.pathOf('target'), 'utf8'), 'old')
  assert.match(await readFile(cli.pathOf('v.ndjson.rejected'), 'utf8'), /email is missing/)
})

test("files are those of the caller's folder, and the actor is the user of sudo", async () => {
  const cli = await setUpImports()
  await mkdir(cli.pathOf('caller'))
  await writeFile(cli.pathOf('caller/u.csv'), `${csvOf(1)}x,,,\n`)
  const env = { CALLER_FOLDER: cli.pathOf('caller'), SUDO_USER: 'kate' }
  const run = (...args: string[]) => cli.run(args, '', env)
  assert.equal((await run('users', 'import', 'u.csv')).code, 1)
  assert.equal((await run('users', 'export', '--output', 'copy')).code, 0)
  assert.deepEqual(await readdir(cli.pathOf('caller')), ['copy', 'u.csv', 'u.csv.rejected'])
  const events = JSON.parse((await run('audit', 'list', '--json')).stdout)
  assert.deepEqual(
    events.map(({ by }: { by: { name: string } }) => by.name),
    ['kate', 'kate'],
  )
})

test('temporary passwords are not written to a file of others, or beside other content', async () => {
  const cli = await setUpImports()
  await writeFile(cli.pathOf('u.csv.passwords'), 'email,password\r\n', { mode: 0o644 })
  await chmod(cli.pathOf('u.csv.passwords'), 0o644)
  const exposed = await cli.importFile('u.csv', rowsOf(4), ...TEMPORARY)
  assert.deepEqual([exposed.code, exposed.counts], [1, null])
  assert.match(exposed.said.join(), /u\.csv\.passwords is not yours, or not only yours to read/)
  await symlink('u.csv.passwords', cli.pathOf('w.csv.passwords'))
  const linked = await cli.importFile('w.csv', rowsOf(4), ...TEMPORARY)
  // An error of a file is not called one of the database.
  assert.match(linked.said.at(-1) ?? '', /^ELOOP: .* open '.*w\.csv\.passwords'\.$/)
  await writeFile(cli.pathOf('v.csv.passwords'), 'shopping list\n', { mode: 0o600 })
  const other = await cli.importFile('v.csv', rowsOf(4), ...TEMPORARY)
  assert.match(other.said.join(), /v\.csv\.passwords does not have temporary passwords/)
  assert.equal(await readFile(cli.pathOf('v.csv.passwords'), 'utf8'), 'shopping list\n')
  assert.deepEqual(await cli.users(), [])
})
