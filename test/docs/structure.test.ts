import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { PROJECT } from '../support/process.ts'

const read = (file: string) => readFileSync(join(PROJECT, file), 'utf8')
const IMPORT =
  /^\s*(?:import|export)\s(?:[^'"]*?\sfrom\s)?['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]\s*\)/gm

/** Every source file, with the files of the project and the packages that it names. */
const imports = new Map(
  globSync('{src,tools,test,demo,bench,examples}/**/*.ts', {
    cwd: PROJECT,
    exclude: ['**/node_modules/**'],
  }).map(file => {
    const named = namedIn(file)
    const files = named.filter(name => name.startsWith('.') && name.endsWith('.ts'))
    return [
      file,
      {
        files: files.map(name => join(dirname(file), name)),
        packages: named.filter(name => !name.startsWith('.')),
      },
    ] as const
  }),
)

function namedIn(file: string): string[] {
  return [...read(file).matchAll(IMPORT)].map(match => match[1] ?? match[2] ?? '')
}

test('no imports form a circle', () => {
  assert.ok(imports.size > 30)
  const finished = new Set<string>()
  const visit = (file: string, path: string[]) => {
    assert.ok(!path.includes(file), [...path, file].join(' -> '))
    if (finished.has(file)) return
    for (const next of imports.get(file)?.files ?? []) visit(next, [...path, file])
    finished.add(file)
  }
  for (const file of imports.keys()) visit(file, [])
})

/** The folders of src/ from top to bottom. */
const FLOORS = [
  ...['main.ts', 'cli', 'service', 'admin', 'http', 'login', 'session', 'storage', 'keys'],
  ...['metrics', 'log', 'system', 'config', 'domain', 'hashing', 'bcrypt'],
]

test('no import runs upwards', () => {
  const floorOf = (file: string) => {
    const floor = FLOORS.indexOf(file.split('/')[1] ?? '')
    assert.ok(floor >= 0, file)
    return floor
  }
  const sources = [...imports].filter(([file]) => /^src\/.*(?<!\.test)\.ts$/.test(file))
  for (const [file, { files }] of sources) {
    for (const imported of files) {
      assert.ok(floorOf(imported) >= floorOf(file), `${file} imports ${imported}`)
    }
  }
})

test('tests and benchmarks do not import each other', () => {
  const sideOf = (file: string) => /^(test|bench)\//.exec(file)?.[1]
  for (const [file, { files }] of imports) {
    const own = [undefined, sideOf(file)]
    const crossing = files.find(imported => sideOf(file) && !own.includes(sideOf(imported)))
    assert.equal(crossing, undefined, `${file} imports ${crossing}`)
  }
})

const HTTP = /^(fastify$|@fastify\/|node:https?$)/
const SQL = /^(kysely($|\/)|pg$|pg\/|node:sqlite$)/
const DOMAIN = ['domain', 'login', 'hashing', 'session', 'keys']

for (const [folders, technologies] of [
  [DOMAIN, { HTTP, SQL }],
  [['http'], { SQL }],
  [['storage'], { HTTP }],
] as const) {
  const names = Object.keys(technologies).join(' nor ')
  const forbidden = Object.values(technologies)
  test(`${folders.join('/, ')}/ do not reach ${names}, directly or through other files`, () => {
    for (const folder of folders) {
      assert.ok(filesOf(folder).length > 2, folder)
      for (const start of filesOf(folder)) {
        for (const [file, packages] of reachedFrom(start)) {
          const found = packages.find(name => forbidden.some(it => it.test(name)))
          assert.equal(found, undefined, `${start} reaches ${found} through ${file}`)
        }
      }
    }
  })
}

test('the rules above would notice a package', () => {
  const packages = (start: string) => [...reachedFrom(start).values()].flat()
  assert.ok(packages('src/http/app.ts').some(name => HTTP.test(name)))
  assert.ok(packages('src/storage/open-store.ts').some(name => SQL.test(name)))
})

test('bcrypt/ needs nothing of the project, and could be a package of its own', () => {
  const exclude = ['**/*.test.ts']
  const files = globSync('src/bcrypt/*.{ts,js}', { cwd: PROJECT, exclude })
  assert.ok(files.length > 5)
  for (const file of files) {
    for (const name of namedIn(file)) assert.match(name, /^(node:|\.\/|bcrypt$|wabt$)/, file)
  }
})

test('hashing/ knows nothing of logins: it imports only bcrypt/', () => {
  for (const start of filesOf('hashing')) {
    for (const [file] of reachedFrom(start)) assert.match(file, /^src\/(hashing|bcrypt)\//, start)
  }
})

test('the domain takes the time from outside', () => {
  for (const file of DOMAIN.flatMap(filesOf)) {
    assert.doesNotMatch(read(file), /Date\.now\(\)|new Date\(\)/, file)
  }
})

function filesOf(folder: string): string[] {
  return [...imports.keys()].filter(
    file => file.startsWith(`src/${folder}/`) && !file.endsWith('.test.ts'),
  )
}

/** Every file that this one imports, directly or not, with the packages of each. */
function reachedFrom(start: string): Map<string, string[]> {
  const reached = new Map<string, string[]>()
  const visit = (file: string) => {
    if (reached.has(file)) return
    const { files = [], packages = [] } = imports.get(file) ?? {}
    reached.set(file, packages)
    files.forEach(visit)
  }
  visit(start)
  return reached
}

test('the page says the same in every language, and nothing that it does not use', () => {
  const files = globSync('src/page/texts/*.json', { cwd: PROJECT })
  const texts = files.map(file => JSON.parse(read(file)))
  const placeholders = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(String).toSorted()
  assert.ok(texts.length > 1)
  const sources = globSync('src/http/{page,routes}/*.ts', { cwd: PROJECT }).map(read).join('\n')
  for (const [i, language] of texts.entries()) {
    assert.deepEqual(Object.keys(language), Object.keys(texts[0]), files[i])
    for (const [key, text] of Object.entries(language)) {
      const expected = placeholders(texts[0][key])
      assert.deepEqual(placeholders(String(text)), expected, `${files[i]} ${key}`)
      assert.match(sources, new RegExp(`'${key}'|\\.${key}\\b`), key)
    }
  }
})

test('comments, texts and documents are written in plain words', () => {
  // Vague subjects that made sentences hard to read, and second names for one thing.
  const avoided = /\b(who|whom|whoever|nobody|anew|for so long|housekeeping|e-mail)\b/i
  const data = /nobody(-\$\{suffix\})?@localhost/g
  const files = globSync(
    ['*.md', 'docs/**/*.md', '*.cjs', '{src,test,bench,demo,examples}/**/*.{ts,js,html,txt}'],
    { cwd: PROJECT, exclude: ['**/node_modules/**', 'test/docs/structure.test.ts'] },
  )
  assert.ok(files.length > 200)
  for (const file of [...files, 'src/page/texts/en.json']) {
    const lines = read(file).replace(data, '').split('\n')
    for (const [index, line] of lines.entries()) {
      // German keeps its hyphen.
      const text = line.replaceAll('E-Mail-Adresse', '')
      assert.doesNotMatch(text, avoided, `${file}:${index + 1}`)
      // Outside of the project's folder it would run the package of a stranger.
      if (file !== 'CHANGELOG.md') assert.doesNotMatch(text, /npx login-service/)
    }
  }
})

test('the lock files name no download address', () => {
  for (const folder of ['.', 'bench', 'test/system/installation/tools']) {
    assert.doesNotMatch(read(join(folder, 'package-lock.json')), /"resolved"/, folder)
  }
})
