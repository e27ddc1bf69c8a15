// The documents say what the code does, and their links lead somewhere.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { parseEnv } from 'node:util'
import { OPERATOR_VARIABLES } from '../src/config/variables.ts'
import { createCli } from './support/cli.ts'
import { DOCUMENTS, withTables } from '../tools/document-tables.ts'
import { createTestDatabase } from './support/engines.ts'
import { PROJECT } from './support/process.ts'

const read = (file: string) => readFileSync(join(PROJECT, file), 'utf8')

test('the tables of the documents are those of the code', () => {
  for (const file of DOCUMENTS) {
    assert.equal(read(file), withTables(file), `${file}: run "npm run docs:generate"`)
  }
})

test('the page of variables begins with those that a production sets', () => {
  const [six] = read('docs/configuration.md').split('## Advanced')
  const names = [...(six ?? '').matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name)
  assert.deepEqual(
    names.toSorted(),
    Object.keys(parseEnv(read('deploy/login-service.env'))).toSorted(),
  )
})

test('every npm script that the documents name exists', () => {
  const { scripts } = JSON.parse(read('package.json'))
  for (const file of [
    'README.md',
    'CONTRIBUTING.md',
    'docs/cli.md',
    'docs/configuration.md',
    'docs/operations.md',
    'docs/log-events.md',
    'docs/integrating.md',
    'docs/installing.md',
  ]) {
    for (const [, name = ''] of read(file).matchAll(/npm run (?:-s )?([a-z:]+)/g)) {
      assert.ok(scripts[name], `${file}: npm run ${name}`)
    }
  }
})

test('"serve --help" explains every variable of an operator', async () => {
  const database = await createTestDatabase('sqlite')
  const cli = await createCli(database)
  after(async () => {
    await cli.remove()
    await database.drop()
  })
  const help = (await cli.run(['serve', '--help'])).stdout.replace(/\s+/g, ' ')
  for (const { name, byDefault, sentence } of OPERATOR_VARIABLES) {
    assert.ok(help.includes(`${name} ${sentence.replaceAll('`', '')} [`), name)
    if (byDefault) assert.ok(help.includes(`default: ${byDefault}]`), name)
  }
  assert.ok(!help.includes('ACCESS_TOKEN_SECONDS'))
})

test('every link to a file or a heading of the project leads to it', () => {
  const files = globSync(['*.md', 'docs/**/*.md', 'src/**/*.md', 'examples/*.md'], {
    cwd: PROJECT,
    exclude: ['**/node_modules/**'],
  })
  let links = 0
  for (const file of files) {
    const text = read(file).replace(/^```.*?^```$/gms, '')
    for (const [, target = ''] of text.matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)) {
      const [path = '', anchor] = target.split('#')
      const found = path ? join(dirname(file), path) : file
      assert.ok(existsSync(join(PROJECT, found)), `${file}: ${target}`)
      if (anchor) assert.ok(anchorsIn(found).includes(anchor), `${file}: ${target}`)
      links += 1
    }
    // Also those that are only named, from the root of the project.
    for (const [name] of text.matchAll(/\bdocs\/[\w./-]+\.(md|json|png)\b/g)) {
      assert.ok(existsSync(join(PROJECT, name)), `${file}: ${name}`)
    }
  }
  assert.ok(links > 50)
})

/** The anchors of the headings, as GitHub forms them. */
function anchorsIn(file: string): string[] {
  return [...read(file).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}
