// The documents say what the code does, and their links lead somewhere.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { describeVariables } from '../src/config/variables.ts'
import { WINDOW_MINUTES } from '../src/domain/throttle.ts'
import { PUBLIC_FAILURES } from '../src/http/answer/envelope.ts'
import { WHEN } from '../src/http/openapi/failures.ts'
import { createCli } from './cli.ts'
import { createTestDatabase } from './engines.ts'
import { PROJECT } from './process.ts'

const read = (file: string) => readFileSync(join(PROJECT, file), 'utf8')
const withoutMarks = (text: string) => text.replaceAll('`', '')

test('docs/configuration.md lists every variable as it is declared, and no other', () => {
  const expected = describeVariables().map(({ name, byDefault, values, meaning }) =>
    [name, byDefault, values, meaning].map(withoutMarks),
  )
  assert.deepEqual(rowsOf('docs/configuration.md', '| variable |'), expected)
})

test('docs/api.md lists every failure with its status and when it is sent, and no other', () => {
  const when: Record<string, string> = WHEN
  const expected = Object.entries(PUBLIC_FAILURES).map(([code, { status }]) => [
    code,
    String(status),
    withoutMarks(String(when[code])),
  ])
  assert.deepEqual(rowsOf('docs/api.md', '| code |'), expected)
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

test('the help of the commands', async context => {
  const database = await createTestDatabase('sqlite')
  const cli = await createCli(database)
  after(async () => {
    await cli.remove()
    await database.drop()
  })
  const helpOn = async (command: string) =>
    (await cli.run([...command.split(' '), '--help'])).stdout
  /** The first words of the lines under "Commands:". */
  const commandsIn = (help: string) =>
    [...(/^Commands:\n((?: .*\n)+)/m.exec(help)?.[1] ?? '').matchAll(/^ {2}([a-z-]+)/gm)]
      .map(([, name = '']) => name)
      .filter(name => name !== 'help')

  await context.test('docs/cli.md lists every command, and options that it has', async () => {
    const commands: string[] = []
    for (const group of commandsIn((await cli.run(['--help'])).stdout)) {
      const inner = commandsIn(await helpOn(group))
      commands.push(...(inner.length > 0 ? inner.map(name => `${group} ${name}`) : [group]))
    }
    const listed = new Set<string>()
    for (const [cell = ''] of rowsOf('docs/cli.md', '| command |')) {
      for (const usage of cell.split(', ')) {
        const [command = ''] = /^[a-z-]+( [a-z-]+)?/.exec(usage) ?? []
        listed.add(command)
        const help = await helpOn(command)
        for (const [option] of usage.matchAll(/--[a-z-]+/g)) assert.ok(help.includes(option), usage)
      }
    }
    assert.deepEqual([...listed].toSorted(), commands.toSorted())
  })

  await context.test('"serve --help" explains every variable', async () => {
    const help = (await helpOn('serve')).replace(/\s+/g, ' ')
    for (const { name, byDefault, meaning } of describeVariables()) {
      assert.ok(help.includes(`${name} ${withoutMarks(meaning)} [`), name)
      if (byDefault) assert.ok(help.includes(`default: ${byDefault}]`), name)
    }
  })
})

test('the page waits as long as a block lasts if an answer does not say how long', () => {
  const [, seconds] = /WAIT_DEFAULT_SECONDS = (\d+)/.exec(read('src/page/form.js')) ?? []
  assert.equal(Number(seconds), WINDOW_MINUTES * 60)
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

/** The cells of the table with this head, without code marks. */
function rowsOf(file: string, head: string): string[][] {
  const text = read(file)
  const [table = ''] = /^(\|.*\n)+/.exec(text.slice(text.indexOf(head))) ?? []
  assert.ok(table.startsWith(head), `no table "${head}" in ${file}`)
  return table
    .trimEnd()
    .split('\n')
    .slice(2)
    .map(line =>
      line
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map(cell => withoutMarks(cell.trim())),
    )
}
