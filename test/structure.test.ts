import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { FAILURE_CODES } from '../src/http/envelope.ts'
import { VARIABLES } from '../src/variables.ts'

const ROOT = resolve(import.meta.dirname, '..')
const IMPORT =
  /^\s*(?:import|export)\s(?:[^'"]*?\sfrom\s)?['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]\s*\)/gm

/** Every source file, with the files of the project and the packages that it names. */
const imports = new Map(
  globSync('{src,test,demo,bench,examples}/**/*.ts', {
    cwd: ROOT,
    exclude: ['**/node_modules/**'],
  }).map(file => {
    const text = readFileSync(join(ROOT, file), 'utf8')
    const named = [...text.matchAll(IMPORT)].map(match => match[1] ?? match[2] ?? '')
    return [
      file,
      {
        files: named
          .filter(name => name.startsWith('.') && name.endsWith('.ts'))
          .map(name => relative(ROOT, resolve(ROOT, dirname(file), name))),
        packages: named.filter(name => !name.startsWith('.')),
      },
    ] as const
  }),
)

test('the project has files, and what they import exists', () => {
  assert.ok(imports.size > 30)
  for (const [file, { files }] of imports) {
    for (const imported of files) assert.ok(imports.has(imported), `${file} imports ${imported}`)
  }
})

test('no imports form a circle', () => {
  const finished = new Set<string>()
  const visit = (file: string, path: string[]) => {
    assert.ok(!path.includes(file), [...path, file].join(' -> '))
    if (finished.has(file)) return
    for (const next of imports.get(file)?.files ?? []) visit(next, [...path, file])
    finished.add(file)
  }
  for (const file of imports.keys()) visit(file, [])
})

test('login/ and session/ reach neither HTTP nor SQL', () => {
  const forbidden = /^(fastify|@fastify\/|kysely|pg$|pg\/|node:sqlite|node:https?$)/
  const inner = [...imports.keys()].filter(
    file => /^src\/(login|session)\//.test(file) && !file.endsWith('.test.ts'),
  )
  assert.ok(inner.length > 5)
  for (const start of inner) {
    const reached = new Set<string>()
    const visit = (file: string) => {
      if (reached.has(file)) return
      reached.add(file)
      const { files = [], packages = [] } = imports.get(file) ?? {}
      for (const name of packages)
        assert.ok(!forbidden.test(name), `${start} reaches ${name} through ${file}`)
      files.forEach(visit)
    }
    visit(start)
  }
})

test('login/ and session/ take the time from outside', () => {
  for (const file of imports.keys()) {
    if (!/^src\/(login|session)\//.test(file) || file.endsWith('.test.ts')) continue
    assert.doesNotMatch(readFileSync(join(ROOT, file), 'utf8'), /Date\.now\(\)|new Date\(\)/, file)
  }
})

test('the README lists every variable with its default and meaning, and no other', () => {
  const rows = tableRows('| variable |')
  const expected = Object.entries(VARIABLES).map(([name, { byDefault, meaning }]) => [
    name,
    byDefault,
    meaning.replaceAll('`', ''),
  ])
  assert.deepEqual(rows, expected)
})

test('the README lists every failure with its status, and no other', () => {
  const rows = tableRows('| code |').map(([code, status]) => ({ code, status: Number(status) }))
  assert.deepEqual(rows, FAILURE_CODES)
})

test('docs/operations.md lists every event that is logged, and no other', () => {
  const logged = new Set<string>()
  for (const file of imports.keys()) {
    if (!/^src\/(?!admin\/)/.test(file) || file.endsWith('.test.ts')) continue
    const text = readFileSync(join(ROOT, file), 'utf8')
    for (const match of text.matchAll(/event: '([a-z_.]+)'/g)) logged.add(match[1] ?? '')
  }
  const rows = tableRows('| event |', 'docs/operations.md')
  const listed = rows.flatMap(([events = '']) => events.split(', '))
  assert.deepEqual(listed.toSorted(), [...logged].toSorted())
})

test('the page says the same in every language, and nothing that it does not use', () => {
  const files = globSync('src/page/texts/*.json', { cwd: ROOT })
  const texts = files.map(file => JSON.parse(readFileSync(join(ROOT, file), 'utf8')))
  const placeholders = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(String).toSorted()
  assert.ok(texts.length > 1)
  const sources = globSync('src/page/*.{html,js}', { cwd: ROOT })
    .map(file => readFileSync(join(ROOT, file), 'utf8'))
    .join('\n')
  for (const [i, language] of texts.entries()) {
    assert.deepEqual(Object.keys(language), Object.keys(texts[0]), files[i])
    for (const [key, text] of Object.entries(language)) {
      assert.deepEqual(
        placeholders(String(text)),
        placeholders(texts[0][key]),
        `${files[i]} ${key}`,
      )
      assert.match(sources, new RegExp(`\\{\\{${key}\\}\\}|'${key}'`), key)
    }
  }
})

test('the lock file names no download address', () => {
  const lock = readFileSync(join(ROOT, 'package-lock.json'), 'utf8')
  assert.doesNotMatch(lock, /"resolved"/)
})

/** The cells of the table with this head, without its code marks. */
function tableRows(head: string, file = 'README.md'): string[][] {
  const lines = readFileSync(join(ROOT, file), 'utf8').split('\n')
  const start = lines.findIndex(line => line.startsWith(head))
  assert.notEqual(start, -1, `no table "${head}" in ${file}`)
  const rows = lines.slice(start + 2)
  return rows
    .slice(
      0,
      rows.findIndex(line => !line.startsWith('|')),
    )
    .map(line =>
      line
        .split('|')
        .slice(1, -1)
        .map(cell => cell.trim().replaceAll('`', '')),
    )
}
