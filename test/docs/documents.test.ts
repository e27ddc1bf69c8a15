// The documents say what the code does, and their links lead somewhere.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { parseEnv } from 'node:util'
import { ADMIN_ROUTES } from '../../src/admin/api/app.ts'
import { warnOfUnknown } from '../../src/config/unknown-variables.ts'
import { OPERATOR_VARIABLES } from '../../src/config/variables.ts'
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

/** Names of other programs; and a misspelt variable, the example of a warning. */
const FOREIGN = /^(ERR|DEPTH_ZERO|NODE_EXTRA|SSL|CURL|SUPABASE)_|^BCRYPT_COSTS$/
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
  const isVariable = (name: string) =>
    FOREIGN.test(name) || (constants.has(name) && warnOfUnknown({ [name]: '' }).length === 0)
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
