// The documents say what the code does, and their links lead somewhere. The numbers, files and inventory of cryptography
// in docs/security.md are those of the source.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { parseEnv } from 'node:util'
import { ADMIN_ROUTES } from '../../src/admin/api/app.ts'
import { warnOfUnknown } from '../../src/config/unknown-variables.ts'
import { OPERATOR_VARIABLES } from '../../src/config/variables.ts'
import { PUBLIC_FAILURES } from '../../src/http/answer/envelope.ts'
import { DOCUMENTS, withTables } from '../../tools/document-tables.ts'
import { setUpCli } from '../support/cli.ts'
import { createTestDatabase } from '../support/engines.ts'
import { PROJECT } from '../support/process.ts'

const MARKDOWN = globSync(['*.md', 'docs/**/*.md', 'src/**/*.md', 'examples/**/*.md'], {
  cwd: PROJECT,
  exclude: ['**/node_modules/**'],
})
const read = (file: string) => readFileSync(join(PROJECT, file), 'utf8')

test('the tables of the documents are those of the code', () => {
  for (const file of DOCUMENTS) {
    assert.equal(read(file), withTables(file), `${file}: run "npm run generate"`)
  }
})

test('recipes and documents name the version of package.json', () => {
  const { version } = JSON.parse(read('package.json'))
  const files = [...MARKDOWN, ...globSync('deploy/*.*', { cwd: PROJECT })]
  const names = files.flatMap(file => {
    // An upgrade installs a later version.
    const text = read(file).replace(/^## Upgrade\n.*?(?=^## )/ms, '')
    return text.match(/(?<=login-service[:-])\d[\d.]*\d/g) ?? []
  })
  const [newest] = read('CHANGELOG.md').match(/(?<=^## ).+/m) ?? []
  assert.deepEqual([newest, ...new Set(names)], [version, version])
})

test('the page of variables begins with those that a production sets', () => {
  const [six] = read('docs/configuration.md').split('## Advanced')
  const names = [...(six ?? '').matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name)
  const set = Object.keys(parseEnv(read('deploy/login-service.env')))
  assert.deepEqual(names.toSorted(), set.toSorted())
})

test('"serve --help" explains every variable of an operator', async () => {
  const cli = await setUpCli('sqlite', createTestDatabase('sqlite'))
  const help = (await cli.run(['serve', '--help'])).stdout.replace(/\s+/g, ' ')
  for (const { name, byDefault, sentence } of OPERATOR_VARIABLES) {
    assert.ok(help.includes(`${name} ${sentence.replaceAll('`', '')} [`), name)
    if (byDefault) assert.ok(help.includes(`default: ${byDefault}]`), name)
  }
  assert.ok(!help.includes('ACCESS_TOKEN_SECONDS'))
})

test('every event of the code is listed once in docs/log-events.md, and no other', () => {
  // Of the service as fields of lines, of commands as names.
  const files = globSync('src/**/*.ts', { cwd: PROJECT, exclude: ['**/*.test.ts'] })
  const inCode = files.flatMap(file => {
    const name = /^src\/(admin|cli)\//.test(file) ? /'(admin\.[a-z_]+)'/g : /event: '([a-z_.]+)'/g
    return [...read(file).matchAll(name)].map(([, event = '']) => event)
  })
  const rows = read('docs/log-events.md').matchAll(/^\| `([a-z_]+\.[a-z_]+)` \|/gm)
  const listed = [...rows].map(([, event = '']) => event)
  assert.ok(listed.length > 50)
  assert.deepEqual(listed.toSorted(), [...new Set(inCode)].toSorted())
})

test('every link to a file or a heading of the project leads to it', () => {
  let links = 0
  for (const file of MARKDOWN) {
    const text = read(file).replace(/^```.*?^```$/gms, '')
    for (const [, target = ''] of text.matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)) {
      const [path = '', anchor] = target.split('#')
      const found = path ? join(dirname(file), path) : file
      assert.ok(existsSync(join(PROJECT, found)), `${file}: ${target}`)
      if (anchor) assert.ok(anchorsIn(found).includes(anchor), `${file}: ${target}`)
      links += 1
    }
  }
  assert.ok(links > 50)
})

/** The anchors of the headings, as GitHub forms them. */
function anchorsIn(file: string): string[] {
  const headings = [...read(file).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading)
  return headings.map(heading =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

/** Names of other programs; and variables that do not exist, the examples of warnings. */
const FOREIGN =
  /^(ERR|DEPTH_ZERO|NODE_EXTRA|SSL|CURL|SUPABASE)_|^(BCRYPT_(COSTS|ROUNDS)|ADMIN_TOKEN)$/
const COMMAND = /^(?:admin-tokens|audit|database|keys|sessions|throttle|users) [a-z].*/gm
const ROOTS = /^(\/(api|admin)\/v1)?(\/auth)?/

test('the files, scripts, commands, variables, events and addresses in the documents exist', () => {
  const files = globSync('**/*.*', { cwd: PROJECT, exclude: ['**/node_modules/**'] })
  const folders = globSync(['*/', 'src/*/'], { cwd: PROJECT }).map(path => basename(path))
  const textOf = (form: RegExp) => files.flatMap(file => (form.test(file) ? read(file) : [])).join()
  const source = textOf(/^src\/.*(?<!\.test)\.ts$/)
  const quoted = new Set(source.match(/'[a-z]+\.[a-z_]+'/g))
  const topics = new Set([...source.matchAll(/event: '([a-z]+)\./g)].map(([, topic]) => topic))
  const constants = new Set(textOf(/\.(ts|c?js|yaml)$/).match(/\b[A-Z][A-Z\d]*_[A-Z\d_]+\b/g))
  const routes = [
    ...textOf(/http\/(app|ops|routes\/reference)\.ts$/).matchAll(/['`](?:\${auth})?(\/[^'`]*)/g),
    ...ADMIN_ROUTES,
  ].map(([, route = '']) => route.replace(ROOTS, '').split('/'))
  const commands = [...withTables('docs/cli.md').matchAll(/^\| `(.+?)` \|/gm)].map(String)
  const { scripts } = JSON.parse(read('package.json'))

  const isFile = (name: string) => {
    const isOurs = !name.includes('/') || folders.includes(name.split('/')[0] ?? '')
    const path = new RegExp(`(^|/)${name.replaceAll('.', '\\.').replaceAll('*', '[^/]*')}(-|$)`)
    return !isOurs || files.some(file => path.test(file))
  }
  /** Or the code of a failure. */
  const isVariable = (name: string) =>
    FOREIGN.test(name) ||
    Object.hasOwn(PUBLIC_FAILURES, name) ||
    (constants.has(name) && warnOfUnknown({ [name]: '' }).length === 0)
  const isEvent = (name: string) => !topics.has(name.split('.')[0]) || quoted.has(`'${name}'`)
  /** Or the beginning of one. A parameter of a route stands for any text. */
  const isAddress = (address: string) => {
    const words = address.replace(ROOTS, '').split('/')
    const isSame = (word: string, own = '') => !word || word === own || own.startsWith(':')
    return routes.some(route => words.every((word, index) => isSame(word, route[index])))
  }
  const isCommand = (line: string) => {
    const [group, name = ''] = line.split(/[\s\\]+/)
    const options = line.match(/--(?!help)[a-z-]+/g) ?? []
    return commands.some(row => {
      const [, itsGroup, ...names] = row.split(/[\s|\\`]+/)
      const isNamed = !/^[a-z]/.test(name) || names.slice(0, 2).includes(name)
      return group === itsGroup && isNamed && options.every(option => row.includes(option))
    })
  }

  // The past may name what is gone.
  const documents = MARKDOWN.filter(file => file !== 'CHANGELOG.md')
  const names = documents.flatMap(document => {
    const text = read(document)
    const code = [...text.matchAll(/^ *```\w*\n(.*?)^ *```|`([^`\n]+)`/gms)]
      .map(([, block, span]) => block ?? span)
      .join('\n')
    const find = (where: string, form: RegExp, exists: (name: string) => boolean) =>
      [...where.matchAll(form)].map(([name]) => [`${document}: ${name}`, exists(name)] as const)
    return [
      ...find(text, /(?<![\w./-])(?:[\w*-]+\/)+[\w*.-]+\.\w+|docs\/decisions\/\d{4}/g, isFile),
      ...find(code, /(?<![\w./-])[a-z][\w-]*(?:\.\w+)?\.(?:ts|cjs)\b/g, isFile),
      ...find(text, /(?<=npm run (?:-s )?)[a-z][a-z:]*/g, name => name in scripts),
      ...find(code, /\b[A-Z][A-Z\d]*_[A-Z\d_]+\b/g, isVariable),
      ...find(code, /(?<=^|"event":\s?")[a-z]+\.(?!ts|db)[a-z_]+(?=$|")/gm, isEvent),
      ...find(code, /(?<=^(?:GET|POST|PUT|PATCH|DELETE) |\/v1)\/[\w.:{}/-]+/gm, isAddress),
      ...find(code, /\/\.well-known\/[\w.-]+/g, isAddress),
      ...find(code, /(?<=login-service |login-admin |admin -- )[a-z][^\n|&;>]+/g, isCommand),
      ...find(code, COMMAND, isCommand),
    ]
  })
  assert.ok(names.length > 500)
  assert.deepEqual(new Set(names.flatMap(([name, exists]) => (exists ? [] : name))), new Set())
})

const SOURCE = join(PROJECT, 'src')
const STATUSES = ['Met', 'Not met', 'Not applicable']
/** A number of ASVS, of NIST (which has letters too), or one of our own. */
const NUMBER = /^(?:R\d+|[\d.]+\.\d+(?:-\w)?)$/

/** The sections of ASVS 5.0.0 in the chapters that are listed: the level of each requirement, in order. */
const ASVS = {
  ...{ '6.1': '122', '6.2': '111111112222', '6.3': '11223333', '6.4': '112233' },
  ...{ '6.5': '22222333', '6.6': '2223', '6.7': '33', '6.8': '2222' },
  ...{ '7.1': '222', '7.2': '1111', '7.3': '22', '7.4': '11222', '7.5': '223', '7.6': '22' },
  ...{ '9.1': '111', '9.2': '1222' },
  ...{ '11.1': '2233', '11.2': '22233', '11.3': '11233', '11.4': '1222' },
  ...{ '11.5': '23', '11.6': '23', '11.7': '33' },
  ...{ '13.1': '2333', '13.2': '222223', '13.3': '2233', '13.4': '1222233' },
  ...{ '16.1': '2', '16.2': '22222', '16.3': '2222', '16.4': '222', '16.5': '2223' },
}
/** Of SP 800-63B-4: the numbers of each list, and our letters for paragraphs. */
const NIST = {
  ...{ '3.1.1.2': '123456789abcdefghijkl', '3.2.2': 'ab', '2.1.3': 'a' },
  ...{ '5.1': '123456abcdef', '5.1.1': '1234567', '5.1.2': 'a', '5.2': 'ab' },
}
const LEVELS = new Map<string, string>(
  Object.entries(ASVS).flatMap(([section, levels]) =>
    [...levels].map((level, i) => [`${section}.${i + 1}`, level] as const),
  ),
)
const NUMBERS = [
  ...LEVELS.keys(),
  ...Object.entries(NIST).flatMap(([section, ends]) => [...ends].map(end => `${section}-${end}`)),
  // Our own. One number was given up.
  ...Array.from({ length: 81 }, (_, i) => `R${i + 1}`).filter(number => number !== 'R48'),
]

const security = read('docs/security.md')
const linesOf = (status: string) =>
  (security.split(`\n## ${status}\n`)[1]?.split('\n## ')[0] ?? '')
    .split('\n')
    .filter(line => line.startsWith('- '))
/** Those that begin a line, such as "6.3.5 (3), 6.3.7 (3)": the levels are in brackets. */
const numbersIn = (line: string) => {
  const words = line.slice(2).split(/[,: ]+/)
  const end = words.findIndex(word => !NUMBER.test(word) && !/^\(\w+\)$/.test(word))
  return words.slice(0, end).filter(word => NUMBER.test(word))
}
const numbersOf = (status: string) => linesOf(status).flatMap(numbersIn)

test('every requirement is listed once: as met, not met or not applicable', () => {
  assert.deepEqual(STATUSES.flatMap(numbersOf).toSorted(), NUMBERS.toSorted())
  for (const line of STATUSES.flatMap(linesOf)) assert.ok(numbersIn(line).length > 0, line)
})

test('what is not met has its level and a reason, and what is met a file or document where it holds', () => {
  for (const line of linesOf('Not met')) {
    for (const number of numbersIn(line)) {
      const level = line.split(`${number} (`)[1]?.split(')')[0]
      assert.match(level ?? '', /^([123]|SHALL|SHOULD)$/, line)
      assert.equal(level, LEVELS.get(number) ?? level, line)
    }
    assert.match(line, /: .{8,}\.$/, line)
  }
  for (const line of linesOf('Met')) {
    const files = [...line.matchAll(/`([\w/-]+\.[jt]s)`/g)].map(([, file = '']) => file)
    assert.ok(files.length > 0 || /\]\(\S+\)$/.test(line), line)
    for (const file of files) assert.ok(existsSync(join(SOURCE, file)), line)
  }
})

test('the summary has the numbers of the lines', () => {
  const atLevel = (level: string) => (number: string) => LEVELS.get(number) === level
  for (const [name, isCounted] of [
    ['ASVS, level 1', atLevel('1')],
    ['ASVS, level 2', atLevel('2')],
    ['ASVS, level 3', atLevel('3')],
    ['NIST SP 800-63B-4', (number: string) => number.includes('-')],
    ['our own', (number: string) => number.startsWith('R')],
  ] as const) {
    const counts = STATUSES.map(status => numbersOf(status).filter(isCounted).length).join(' | ')
    assert.ok(security.includes(`\n| ${name} | ${counts} |\n`), `${name}: ${counts}`)
  }
})

/** Ids are random, but no secrets: to make one is no cryptography. */
const USES = [
  /^import (?!type |\{ randomUUID \} )[^']*'(node:crypto|node:tls|jose|bcrypt|pg)'/m,
  /^import [^']*\b(digestOf|fingerprintOf|randomToken|createAdminToken)\b/m,
  /\bimport\('(bcrypt|selfsigned)'\)|\bcrypto\.subtle\b/,
]
const SOURCES = globSync('**/*.{ts,js}', { cwd: SOURCE, exclude: ['**/*.test.ts'] })
const readSource = (file: string) => read(join('src', file))
const USERS = SOURCES.filter(file => USES.some(use => use.test(readSource(file))))

test('the inventory names every file that uses cryptography, and no file that does not exist', () => {
  const [, inventory = ''] = security.split(/^##+ (?:Cryptography|Keys, .*)$/m)
  const named = [...inventory.matchAll(/`([\w/-]+\.[jt]s)`/g)].map(([, file = '']) => file)
  assert.ok(USERS.length > 30)
  const isNamed = (file: string) => named.includes(file)
  assert.deepEqual(USERS.filter(isNamed), USERS)
  const isSource = (file: string) => SOURCES.includes(file)
  assert.deepEqual(named.filter(isSource), named)
})

test('SHA-256 is the only hash function besides bcrypt, except for the codes of authenticator apps', () => {
  const calls = USERS.filter(file => file !== 'login/totp.ts').flatMap(file => [
    ...readSource(file).matchAll(/\b(?:hash|createHash|createHmac|sign)\(\s*'([^']+)'/g),
  ])
  assert.ok(calls.length > 8)
  assert.deepEqual([...new Set(calls.map(([, algorithm]) => algorithm))], ['sha256'])
})

test('docs/privacy.md names every cookie, and no other', () => {
  const cookiesIn = (text: string) => [...text.matchAll(/__Host-\w+/g)].map(String).toSorted()
  const privacy = read('docs/privacy.md')
  assert.deepEqual(cookiesIn(privacy), cookiesIn(read('src/http/request/cookies.ts')))
})
