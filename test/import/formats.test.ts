// The recipes of docs/migrating.md: exports of other systems go in as they come, and their users log in. The samples in
// exports/ have the columns that each system documents (src/admin/import/formats.ts names the pages).
import assert from 'node:assert/strict'
import { hash, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { hashKindOf } from '../../src/admin/import/hash-kinds.ts'
import { INHERITED } from '../support/any-text.ts'
import { createCli, parseLine } from '../support/cli.ts'
import { ENGINES_BY_RUN, type Row } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { PROJECT } from '../support/process.ts'
import { DOCUMENT_ON_MIGRATING, recipe } from '../support/recipes.ts'
import { PASSWORD, startTestService, TEST_COST } from '../support/service.ts'

const HASH = (await bcrypt.hash(PASSWORD, TEST_COST)).slice('$2b$'.length)
const service = await own(startTestService(ENGINES_BY_RUN[0]))
const cli = await own(createCli(service.database))

const usersAt = async (domain: string): Promise<Row[]> => {
  const users = await service.database.rows(
    `select * from users where email like '%@${domain}' order by email`,
  )
  return users.map(user => ({
    ...user,
    is_active: Boolean(user.is_active),
    created_at: timeOf(user.created_at),
    locked_until: user.locked_until && timeOf(user.locked_until),
  }))
}
const timeOf = (stored: unknown) => new Date(stored as string | Date).toISOString()

type Sample = {
  heading: string
  sample: string
  reading: string
  /** What is said of the rows that are skipped. */
  skipped?: string[]
  /** The first one logs in. */
  users: Record<string, unknown>[]
}

const CREATED = '2019-03-02T10:11:12'
const SAMPLES: Sample[] = [
  {
    ...{ heading: 'Laravel', sample: 'laravel.ndjson', reading: 'NDJSON from Laravel' },
    skipped: ['passwordHash is Argon2, not bcrypt (line 3)'],
    users: [
      { name: 'Anna Öz', is_active: true, created_at: `${CREATED}.000Z` },
      { name: 'Gone', is_active: false },
    ],
  },
  {
    ...{ heading: 'Devise', sample: 'devise.csv', reading: 'CSV from Devise with commas' },
    users: [
      { name: 'anna', is_active: true, created_at: `${CREATED}.123Z` },
      { name: 'new', is_active: false },
    ],
  },
  {
    ...{ heading: 'Supabase', sample: 'supabase.csv', reading: 'CSV from Supabase with commas' },
    skipped: ['passwordHash is missing (line 3)'],
    users: [
      {
        ...{ id: '5f0c6a52-8d3c-4d3e-9a51-6d2f7a4d1b11', name: 'Anna, Öz', locked_until: null },
        created_at: `${CREATED}.123Z`,
      },
      { name: 'banned', locked_until: '2099-01-01T00:00:00.000Z' },
    ],
  },
  {
    ...{ heading: 'Auth0', sample: 'auth0.ndjson', reading: 'NDJSON from Auth0' },
    users: [{ name: 'anna' }, { name: 'bob' }],
  },
  {
    ...{ heading: 'Keycloak', sample: 'keycloak.json', reading: 'JSON from Keycloak' },
    skipped: [
      'passwordHash is PBKDF2, not bcrypt (user 2)',
      'passwordHash is Argon2, not bcrypt (user 3)',
    ],
    users: [
      {
        ...{ id: '5f0c6a52-8d3c-4d3e-9a51-6d2f7a4d1b21', name: 'Anna Öz' },
        created_at: `${CREATED}.123Z`,
      },
    ],
  },
  {
    ...{ heading: 'Spreadsheets', sample: 'excel.csv', reading: 'CSV with semicolons in latin1' },
    users: [{ name: 'Anna Öz', created_at: `${CREATED}.000Z` }],
  },
]

describe('the recipe of docs/migrating.md, from the export to the first login', () => {
  for (const { heading, sample, reading, skipped = [], users } of SAMPLES) {
    test(heading, async () => {
      const domain = `${heading.toLowerCase()}.example.com`
      const printed = recipe(heading, 'sh', 0, DOCUMENT_ON_MIGRATING)
      const [real = ''] = printed.match(/(?<=^\.\/login-service ).*/gm) ?? ['']
      const file = String(/users import (\S+)/.exec(real)?.[1])
      const content = readFileSync(join(PROJECT, 'test/import/exports', sample), 'latin1')
      const filled = content.replaceAll('HASH', HASH).replaceAll('example.com', domain)
      await writeFile(join(cli.folder, file), filled, 'latin1')

      /** Fails unless it says this; the columns that are not taken are not compared. */
      const imports = async (command: string, outcome: string) => {
        const { code, stderr } = await cli.run(parseLine(command).args)
        assert.equal(code, 0, stderr)
        const lines = stderr.trimEnd().split('\n')
        const said = lines
          .map(line => (line.startsWith('{') ? String(JSON.parse(line).msg) : line))
          .map(line => line.replace(/ into (SQLite|PostgreSQL) .*/, '.'))
          .filter(line => !line.startsWith('These columns are not taken: '))
        const counted = `${users.length} added, 0 updated, 0 unchanged, ${skipped.length} skipped`
        assert.deepEqual(said, [
          `Reading ${file} as ${reading}.`,
          ...skipped.map(reason => `1 row skipped: ${reason}.`),
          `${outcome} ${file}: ${counted}, 0 rejected.`,
        ])
      }
      const trial = 'Nothing was written. An import would give, for'
      await imports(`${real} --dry-run`, trial)
      assert.deepEqual(await usersAt(domain), [])
      await imports(real, 'Imported')
      await assertStored(domain, users)
      assert.equal((await service.login(`anna@${domain}`, PASSWORD)).status, 200)
    })
  }
})

async function assertStored(domain: string, users: Record<string, unknown>[]): Promise<void> {
  const stored = await usersAt(domain)
  assert.equal(stored.length, users.length)
  for (const [i, user] of users.entries()) assert.partialDeepStrictEqual({ ...stored[i] }, user)
}

async function importText(name: string, content: string | Buffer, ...options: string[]) {
  await writeFile(join(cli.folder, name), content)
  return cli.run(['users', 'import', name, ...options])
}

test('a hash is never hashed, and the option that helps is named', async () => {
  const heading = 'email,name,password\n'
  const row = `a@hash.example.com,Ann,$2y$${HASH}\n`
  for (const options of [[], ['--hash-passwords']]) {
    const { code, stderr } = await importText('h.csv', heading + row, ...options)
    assert.equal(code, 2)
    assert.match(
      stderr,
      /^The column "password" seems to have hashes \(bcrypt\): add --map password=passwordHash/,
    )
  }
  // The other rows do not tell it.
  const plain = ['b', 'c', 'd', 'e'].map(name => `${name}@hash.example.com,B,correct horse\n`)
  const others = `f@hash.example.com,F,pbkdf2_sha256$1$x$y\ng@hash.example.com,G,${'0'.repeat(40)}\n`
  const mixed = `${heading}${plain.join('')}${row}${others}`
  const { code, stderr } = await importText('h.csv', mixed, '--hash-passwords')
  assert.equal(code, 1)
  for (const [i, kind] of ['bcrypt', 'PBKDF2', 'a digest .*'].entries()) {
    const said = `1 row rejected: password seems to be a hash \\(${kind}\\): .*\\(line ${6 + i}\\)`
    assert.match(stderr, new RegExp(said))
  }
  const mapped = await importText('h.csv', heading + row, '--map', 'password=passwordHash')
  assert.equal(mapped.code, 0, mapped.stderr)
  assert.equal((await service.login('a@hash.example.com', PASSWORD)).status, 200)
})

test('a column of digests is not taken for passwords, and users get temporary ones instead', async () => {
  const domain = 'digest.example.com'
  const digests = ['md5', 'sha1', 'sha256'].map(name => hash(name, PASSWORD))
  const rows = [PASSWORD, ...digests].map((password, i) => ({
    ...{ email: `u${i}@${domain}`, name: 'U', password },
  }))
  const ndjson = rows.map(row => JSON.stringify(row))
  for (const content of [
    `email,name,password\n${rows.map(row => Object.values(row).join()).join('\n')}\n`,
    ndjson.join('\n'),
    JSON.stringify(rows),
  ]) {
    for (const options of [[], ['--hash-passwords']]) {
      const { code, stderr } = await importText('d.csv', content, ...options)
      assert.equal(code, 2)
      assert.match(
        stderr,
        /^The column "password" seems to have hashes \(a digest .*\), .* cannot be imported: .* temporary/,
      )
    }
  }
  assert.deepEqual(await usersAt(domain), [])
  const options = ['--map', 'password=passwordHash', '--without-passwords', 'temporary']
  const { code, stderr } = await importText('t.ndjson', ndjson.slice(1).join('\n'), ...options)
  assert.equal(code, 0, stderr)
  assert.match(stderr, /3 users got a temporary password/)
})

test('kinds of hashes are recognised, and passwords are not', () => {
  const DIGEST = 'a digest such as MD5 or SHA-256'
  for (const name of ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512']) {
    const bytes = hash(name, 'x', 'buffer')
    const hex = bytes.toString('hex')
    for (const text of [hex, hex.toUpperCase(), `0a1b:${hex}`, `${hex}:0a1b`]) {
      assert.equal(hashKindOf(text), DIGEST, text)
    }
    const base64 = bytes.toString('base64')
    assert.equal(hashKindOf(base64), name === 'sha512' ? 'scrypt of Firebase' : DIGEST, base64)
  }
  const kinds: [text: string, kind: string][] = [
    ['$2y$10$abc', 'bcrypt'],
    ['$argon2id$v=19$m=65536,t=4,p=1$c2FsdA$aGFzaA', 'Argon2'],
    ['pbkdf2_sha256$600000$salt$hash=', 'PBKDF2'],
    ['bcrypt_sha256$$2b$12$x', 'bcrypt over SHA-256'],
    ['{SSHA}abc=', 'LDAP'],
    ['$6$salt$hash', 'crypt'],
    ['$P$Bsalthash', 'WordPress'],
  ]
  for (const [given, kind] of kinds) assert.equal(hashKindOf(given), kind, given)
  for (const password of [
    ...['correct horse', '0123456789abcdef', '12:34', '$ecret$', '{"a"}'],
    'Tr0ub4dor&3TrOub4dor3TrO',
    'correcthorsebatterystaple'.repeat(3).slice(0, 64),
  ]) {
    assert.equal(hashKindOf(password), null, password)
  }
})

/** `HASH` is a hash, `@D` a domain of its own. `said` is what stderr must have, and `users` what is stored. */
type Case = {
  content: string
  encode?: (text: string) => Buffer
  options?: string[]
  code?: number
  said?: RegExp
  users?: Record<string, unknown>[]
}
const OFF = [{ is_active: true }, { is_active: false }, { is_active: false }]
const OWN = 'email,name,passwordHash'
const PLAIN = { name: 'A', password: PASSWORD }
/** To make text of it throws. */
const TEXTLESS = { toString: 1, valueOf: 1 }
const BCRYPT = { type: 'password', credentialData: { algorithm: 'bcrypt' } }
const KEYCLOAK = {
  ...{ username: 'u', lastName: 'B', createdTimestamp: 1 },
  credentials: [{ ...BCRYPT, secretData: { value: 'HASH' } }],
}
const CASES: Record<string, Case> = {
  'a recognised format says which users are disabled, banned or blocked': {
    content: `email,encrypted_password,Is_Active,banned_at,CONFIRMED_AT
a@D,HASH,TRUE,,2019-03-02\nb@D,HASH,False,NULL,2019-03-02
c@D,HASH,t,2024-01-01 00:00:00,2019-03-02\nd@D,HASH,1,,0000-00-00 00:00:00\n`,
    users: [...OFF, { is_active: false }],
  },
  'otherwise a column is mapped to the opposite of isActive': {
    content: `${OWN},disabled\na@D,A,HASH,0\nb@D,B,HASH,Yes\nc@D,C,HASH,2024-01-01 00:00:00\n`,
    options: ['--map', 'disabled=!isActive'],
    users: OFF,
  },
  'the option for a column of disabled users is named': {
    content: `${OWN},plan,disabled\na@D,A,HASH,x,0\n`,
    code: 1,
    said: /"plan", "disabled" are not .*: add --map COLUMN=FIELD \(disabled=!isActive\), or/,
  },
  'columns are mapped and left out, and those are listed': {
    content: `login,name,hash,plan,id\na@D,A,HASH,pro,7\n`,
    options: ['--map=login=email', '--map=hash=passwordHash', '--map=id=', '--ignore-unknown'],
    said: /\nThese columns are not taken: plan\.\n/,
    users: [{ name: 'A' }],
  },
  'columns that only later rows of JSON have are listed too': {
    content: `{"email":"a@D","name":"A","passwordHash":"HASH","plan":1}
{"email":"b@D","name":"B","passwordHash":"HASH","team":1}\n`,
    options: ['--ignore-unknown'],
    said: /\nThese columns are not taken: plan\.\nThese columns are not taken: team\.\n/,
    users: [{ name: 'A' }, { name: 'B' }],
  },
  'without passwords, only a malformed bcrypt hash is rejected': {
    content: `${OWN}\na@D,A,!\nb@D,B,\nc@D,C,{noop}x\nd@D,D,$2b$31$x\ne@D,E,${'0'.repeat(32)}
f@D,F,$2b$15$${'.'.repeat(53)}\n`,
    options: ['--without-passwords', 'skip'],
    code: 1,
    said: /1 row rejected: passwordHash is not a bcrypt hash .* \(line 5\)\.[\s\S]*5 skipped, 1 rejected/,
  },
  'hashes of Spring and Django are bcrypt': {
    content: `${OWN}\nanna@D,A,{bcrypt}HASH\nbob@D,B,bcrypt$HASH\n`,
    users: [{ name: 'A' }, { name: 'B' }],
  },
  'flags, headings and missing values are understood as other programs write them': {
    content: `Email,NAME,PasswordHash,IsActive,Role,createdat
a@D,A,HASH,TRUE,NULL,2019-03-02 10:11:12\nb@D,B,HASH,False,"NULL",\\N\n`,
    users: [
      { is_active: true, role: 'user', created_at: '2019-03-02T10:11:12.000Z' },
      { is_active: false, role: 'NULL' },
    ],
  },
  'a blank first line is no heading': {
    content: `\ufeff\r\n \r\n${OWN}\r\na@D,A,HASH\r\n`,
    users: [{ name: 'A' }],
  },
  'UTF-16 with its mark is read, and its cut end rejected': {
    content: `\ufeff${OWN}\na@D,Zoë,HASH\nb@D,B`,
    encode: text => Buffer.from(text, 'utf16le').subarray(0, -1),
    code: 1,
    said: /^Reading \S+ as CSV with commas in utf16le into .*\n1 row rejected: it is not valid UTF-16: the file may have been cut off \(line 3\)\./,
    users: [{ name: 'Zoë' }],
  },
  'a replacement character is a character': {
    content: `${OWN}\na@D,Zo\ufffd,HASH\n`,
    users: [{ name: 'Zo\ufffd' }],
  },
  'digits after a minute are no time': {
    content: `${OWN},createdAt\na@D,A,HASH,2019-03-02 10:11999\nb@D,B,HASH,2019-03-02 10:11:12.123456\n`,
    code: 1,
    said: /1 row rejected: createdAt takes a time .* \(line 2\)/,
    users: [{ created_at: '2019-03-02T10:11:12.123Z' }],
  },
  'a long field is rejected': {
    content: `${OWN}\na@D,${'A'.repeat(2_000_000)},HASH\nb@D,B,HASH\n`,
    code: 1,
    said: /1 row rejected: name has 2000000 characters \(line 2\)/,
    users: [{ name: 'B' }],
  },
  'rejected rows are counted by reason, with the first three lines': {
    content: '{}\n'.repeat(2_500),
    code: 1,
    said: /^2500 rows rejected: email is missing \(lines 1, 2, 3 …\)\.$/m,
  },
  'no flag is a name that every object inherits, or unclear': {
    content: `email,encrypted_password,active
${[...INHERITED, '2', ''].map((value, i) => `u${i}@D,HASH,${value}`).join('\n')}\n`,
    code: 1,
    said: /13 rows rejected: active must be true or false/,
    users: [{ is_active: true }],
  },
  'nor in the format of this service': {
    content: `${OWN},isActive,off
${INHERITED.map((name, i) => `u${i}@D,U,HASH,${i % 2 ? name : ''},${i % 2 ? '' : name}`).join('\n')}\n`,
    options: ['--map', 'off=!isActive'],
    code: 1,
    said: /6 rows rejected: !isActive takes a time .*\n6 rows rejected: isActive must be/,
  },
  'an inherited name can be the name of a column': {
    content: `__proto__,constructor,passwordHash\na@D,A,HASH\n`,
    options: ['--map=__proto__=email', '--map=constructor=name'],
    users: [{ name: 'A' }],
  },
  'objects in the place of texts, which have no text, are rejected': {
    content: ['id', 'name', 'password', 'isActive', 'createdAt']
      .map((name, i) => JSON.stringify({ ...PLAIN, email: `u${i}@D`, [name]: TEXTLESS }))
      .join('\n'),
    options: ['--hash-passwords'],
    code: 1,
    said: /5 rejected/,
  },
  'and so is what no time or hash can be made of, in the export of another system': {
    content: [
      { id: TEXTLESS, firstName: TEXTLESS },
      { createdTimestamp: 1e300 },
      { credentials: TEXTLESS },
    ]
      .map((more, i) => JSON.stringify({ ...KEYCLOAK, email: `u${i}@D`, ...more }))
      .join('\n'),
    code: 1,
    said: /: createdAt takes a time [\s\S]*: passwordHash is missing/,
    users: [{ name: 'B' }],
  },
  'an id occurs once': {
    content: ['a', 'b']
      .map(name => ({ id: randomUUID(), email: `${name}@D`, name, passwordHash: 'HASH' }))
      .map((user, _, [first]) => JSON.stringify({ ...user, id: first?.id }))
      .join('\n'),
    code: 1,
    said: /^1 row rejected: its id is also in an earlier line \(line 2\)\.$/m,
    users: [{ name: 'a' }],
  },
}

describe('a file of another system', () => {
  for (const [index, [what, each]] of Object.entries(CASES).entries()) {
    test(what, async () => {
      const domain = `c${index}.example.com`
      const { content, encode = Buffer.from, options = [], users = [] } = each
      const filled = content.replaceAll('@D', `@${domain}`).replaceAll('HASH', `$2b$${HASH}`)
      const ended = await importText('met.csv', encode(filled), ...options)
      assert.equal(ended.code, each.code ?? 0, ended.stderr)
      assert.match(ended.stderr, each.said ?? /./)
      await assertStored(domain, users)
      for (const { email, is_active } of await usersAt(domain)) {
        assert.equal((await service.login(email, PASSWORD)).status, is_active ? 200 : 401)
      }
    })
  }
})

test('a user without a name gets the part before the @, from CSV and JSON, and keeps a name that it has', async () => {
  const domain = 'nameless.example.com'
  const names = async () => (await usersAt(domain)).map(({ name }) => name)
  const secret = { passwordHash: `$2b$${HASH}` }
  const files = [
    `email,name,passwordHash\nAnn.Lee@${domain},,$2b$${HASH}\n`,
    `email,passwordHash\nbob@${domain},$2b$${HASH}\n`,
    JSON.stringify({ email: `c@${domain}`, ...secret }),
  ]
  for (const [i, content] of files.entries()) {
    const { code, stderr } = await importText(`n${i}`, content)
    assert.equal(code, 0, stderr)
  }
  assert.deepEqual(await names(), ['Ann.Lee', 'bob', 'c'])
  await cli.run(['users', 'set', `bob@${domain}`, '--name', 'Bob'])
  const again = await importText('n1', files[1] ?? '', '--update')
  assert.match(again.stderr, /0 updated, 1 unchanged/)
  assert.deepEqual(await names(), ['Ann.Lee', 'Bob', 'c'])
})

test('a user whose imported password is short logs in by the API; the page asks for 8 characters', async () => {
  const short = await bcrypt.hash('short', TEST_COST)
  const email = 'short@page.example.com'
  const { code } = await importText('s.csv', `email,passwordHash\n${email},${short}\n`)
  assert.equal(code, 0)
  assert.equal((await service.login(email, 'short')).status, 200)
  const { text: page } = await service.call({ method: 'GET', path: '/login' })
  assert.match(page, /<input id="password"[^>]* minlength="8"/)
})

test('rejected users of a JSON document can be imported as they are kept', async () => {
  const user = { username: 'x', createdTimestamp: 1, email: 'x@k.example.com', credentials: [] }
  const rejected = await importText('k.json', JSON.stringify({ realm: 'r', users: [user] }))
  assert.equal(rejected.code, 1)
  const kept = await readFile(join(cli.folder, 'k.json.rejected'), 'utf8')
  assert.deepEqual(JSON.parse(kept), { ...user, reason: 'passwordHash is missing' })
  const again = await importText('k.json.rejected', kept, '--without-passwords', 'skip')
  assert.equal(again.code, 0, again.stderr)
  assert.match(
    again.stderr,
    /^Reading k\.json\.rejected as NDJSON from Keycloak into .*\n.*\n1 row skipped/,
  )
})

test('a file is refused as a whole, and the reason is said', async () => {
  const ROW = `a@D,A,$2b$${HASH}\n`
  const PLAIN = { email: 'a@D', name: 'A', password: PASSWORD }
  const plain = `email,name,password\n${Object.values(PLAIN).join()}\n`
  const inPlainText = /^The file has passwords in plain text: add --hash-passwords/
  const cases: [content: string, code: number, said: RegExp, ...options: string[]][] = [
    ['', 1, /^met\.csv is empty\./],
    [OWN.replaceAll(',', ';'), 1, /^met\.csv has no users\./],
    [`${OWN},name\n`, 1, /A column occurs twice/],
    ['email,name\n', 1, /Missing: passwordHash\./],
    ['{"plan":1}\n', 1, /^The columns do not fit: "plan" is not a field of a user/],
    // Its values are not printed.
    [
      ...(['a@D,correct horse,x\n', 1] as const),
      /^The first line of \S+ has values, not the names of columns: [^@$]*$/,
    ],
    [plain, 2, inPlainText],
    [JSON.stringify(PLAIN), 2, inPlainText],
    [`${OWN}\n${ROW}`, 2, /^The file has hashes of passwords: leave out/, '--hash-passwords'],
    [`${OWN},x\n`, 2, /^--map takes COLUMN=FIELD, with one of/, '--map=x=mail'],
    [`${OWN}\n`, 2, /^--map absent=…: there is no such column/, '--map=absent=email'],
    [`${OWN}\n`, 2, /^--delimiter takes one character/, '--delimiter=||'],
    [`${OWN}\n`, 2, /^Option '--from/, '--from=xml'],
    [`${OWN}\n`, 2, /^--valid is for temporary passwords: add --without-pass/, '--valid=2h'],
    ['email\na@D\n', 2, /^--valid takes 1h to 30d/, '--without-passwords=temporary', '--valid=31d'],
  ]
  for (const [content, code, said, ...options] of cases) {
    const filled = content.replace('@D', '@refused.example.com')
    const ended = await importText('met.csv', filled, ...options)
    assert.equal(ended.code, code, `${content} ${options}`)
    assert.match(ended.stderr, said)
  }
  assert.deepEqual(await usersAt('refused.example.com'), [])
})
