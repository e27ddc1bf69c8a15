// docs/security.md lists requirements and all cryptography. Compares its numbers, files and inventory with the source.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PROJECT } from '../support/process.ts'

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

const document = readFileSync(join(PROJECT, 'docs/security.md'), 'utf8')
const linesOf = (status: string) =>
  (document.split(`\n## ${status}\n`)[1]?.split('\n## ')[0] ?? '')
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
    assert.ok(document.includes(`\n| ${name} | ${counts} |\n`), `${name}: ${counts}`)
  }
})

/** Ids are random, but no secrets: to make one is no cryptography. */
const USES = [
  /^import (?!type |\{ randomUUID \} )[^']*'(node:crypto|node:tls|jose|bcrypt|pg)'/m,
  /^import [^']*\b(digestOf|fingerprintOf|randomToken|createAdminToken)\b/m,
  /\bimport\('(bcrypt|selfsigned)'\)|\bcrypto\.subtle\b/,
]
const sources = globSync('**/*.{ts,js}', { cwd: SOURCE, exclude: ['**/*.test.ts'] })
const read = (file: string) => readFileSync(join(SOURCE, file), 'utf8')
const users = sources.filter(file => USES.some(use => use.test(read(file))))

test('the inventory names every file that uses cryptography, and no file that does not exist', () => {
  const [, inventory = ''] = document.split(/^##+ (?:Cryptography|Keys, .*)$/m)
  const named = [...inventory.matchAll(/`([\w/-]+\.[jt]s)`/g)].map(([, file = '']) => file)
  assert.ok(users.length > 30)
  const isNamed = (file: string) => named.includes(file)
  assert.deepEqual(users.filter(isNamed), users)
  const isSource = (file: string) => sources.includes(file)
  assert.deepEqual(named.filter(isSource), named)
})

test('SHA-256 is the only hash function besides bcrypt', () => {
  const calls = users.flatMap(file => [
    ...read(file).matchAll(/\b(?:hash|createHash|createHmac|sign)\(\s*'([^']+)'/g),
  ])
  assert.ok(calls.length > 8)
  assert.deepEqual([...new Set(calls.map(([, algorithm]) => algorithm))], ['sha256'])
})

test('docs/privacy.md names every cookie, and no other', () => {
  const cookiesIn = (text: string) => [...text.matchAll(/__Host-\w+/g)].map(String).toSorted()
  const privacy = readFileSync(join(PROJECT, 'docs/privacy.md'), 'utf8')
  assert.deepEqual(cookiesIn(privacy), cookiesIn(read('http/request/cookies.ts')))
})
