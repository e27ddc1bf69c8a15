// npm run test:coverage: the lines and branches of login, session and storage that the tests run, on both engines: those
// of `npm test`, those of processes, and the proofs; or those of the given files. A process that is killed counts nothing.
// Node writes what each process and thread has run (NODE_V8_COVERAGE); here it is added up and printed.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describeRun, writeSection } from './proof/report.ts'

const FOLDERS = ['src/login', 'src/session', 'src/storage']
/** A developer runs it to write a file of the repository. */
const LEFT_OUT = 'src/login/generate-common-passwords.ts'
const SHOWN_CHARACTERS = 70
/** A file of types alone is never loaded. */
const CODE = /^(export )?(async )?(function|class|const) /m

/** A function or a block, by its characters. V8 names a block only if it ran more or less often than the code around it. */
type Range = { startOffset: number; endOffset: number; count: number }
type Script = { url: string; functions: { ranges: Range[] }[] }

type Source = {
  file: string
  text: string
  /** 1 for each character that was run by any process. */
  run: Uint8Array
  /** All ranges that any process has named. */
  branches: Map<string, Range>
}

const FURTHER = ['test/processes/*.test.ts', 'test/proof/*.test.ts']
const given = process.argv.slice(2)
const folder = await mkdtemp(join(tmpdir(), 'login-coverage-'))
// Some tests run the service as another user, whose processes write to it too.
await chmod(folder, 0o777)
const otherHalf = globSync(given.length > 0 ? given : 'test/*.test.ts').filter(file =>
  readFileSync(file, 'utf8').includes('ENGINES_BY_RUN'),
)
const ends = [await runTests(given)]
if (otherHalf.length > 0) ends.push(await runTests(otherHalf, { TEST_LONG: '1' }))
if (given.length === 0) for (const files of FURTHER) ends.push(await runTests([files]))

const sources = FOLDERS.flatMap(name => globSync(`${name}/**/*.ts`))
  .filter(file => !file.endsWith('.test.ts') && file !== LEFT_OUT)
  .map(toSource)
  .filter(({ text }) => CODE.test(text))
const byUrl = new Map(sources.map(source => [pathToFileURL(source.file).href, source]))
for (const name of readdirSync(folder)) addRuns(readFileSync(join(folder, name), 'utf8'))
const text = FOLDERS.map(describeFolder).join('\n\n')
process.stdout.write(`\n${text}\n`)
writeSection(
  'coverage',
  `## Coverage\n\n${describeRun('npm run test:coverage')} Branches that no test runs are listed.\n\n${text}`,
)
await rm(folder, { recursive: true })
process.exitCode = ends.every(code => code === 0) ? 0 : 1

async function runTests(files: string[], env = {}): Promise<number> {
  const child = spawn(process.execPath, ['test/run.ts', ...files], {
    stdio: 'inherit',
    // Code from the compile cache is counted less exactly.
    env: {
      ...process.env,
      ...env,
      NODE_V8_COVERAGE: folder,
      NODE_DISABLE_COMPILE_CACHE: '1',
      // The proofs run in their short form, whose figures must not replace those of the full one.
      PROOF_REPORT: '',
    },
  })
  const [code] = await once(child, 'exit')
  return code
}

/** Types are stripped in place, so V8's offsets are those of the file. */
function toSource(file: string): Source {
  const text = readFileSync(file, 'utf8')
  return { file, text, run: new Uint8Array(text.length), branches: new Map() }
}

/** Adds what one process or thread has run. */
function addRuns(json: string): void {
  const { result }: { result: Script[] } = JSON.parse(json)
  for (const { url, functions } of result) {
    const source = byUrl.get(url)
    if (!source) continue
    const run = new Uint8Array(source.text.length)
    // Outer ranges come first, because an inner one overrides its part of them.
    const ranges = functions
      .flatMap(each => each.ranges)
      .sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset)
    for (const range of ranges) {
      run.fill(range.count > 0 ? 1 : 0, range.startOffset, range.endOffset)
      source.branches.set(`${range.startOffset}-${range.endOffset}`, range)
    }
    for (const [index, isRun] of run.entries()) if (isRun) source.run[index] = 1
  }
}

function describeFolder(name: string): string {
  const inFolder = sources.filter(({ file }) => file.startsWith(`${name}/`))
  const share = (all: { isRun: boolean }[]) =>
    `${all.filter(({ isRun }) => isRun).length} of ${all.length}`
  const [lines, branches] = [inFolder.flatMap(linesOf), inFolder.flatMap(branchesOf)]
  return [
    `\`${name}\`: ${share(lines)} lines, ${share(branches)} branches.`,
    '',
    ...branches.filter(({ isRun }) => !isRun).map(({ where, text }) => `- ${where}: \`${text}\``),
  ].join('\n')
}

/** Lines with code. One of which only a part has run counts as run: its branches tell the rest. */
function linesOf({ text, run }: Source): { isRun: boolean }[] {
  let start = 0
  return text.split('\n').flatMap(line => {
    const first = start + line.search(/\S/)
    const end = start + line.length
    start = end + 1
    const isCode = /^\s*[^\s/*]/.test(line)
    return isCode ? [{ isRun: run.subarray(first, end).includes(1) }] : []
  })
}

/** Of blocks that have not run, only the outermost. A range without a word is the end of a block. */
function branchesOf({ file, text, run, branches }: Source) {
  if (branches.size === 0) return [{ isRun: false, where: file, text: 'was not loaded' }]
  let endOfLast = 0
  return [...branches.values()]
    .sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset)
    .flatMap(({ startOffset, endOffset }) => {
      const branch = text.slice(startOffset, endOffset)
      const isRun = run.subarray(startOffset, endOffset).includes(1)
      if (!/\w/.test(branch) || (!isRun && endOffset <= endOfLast)) return []
      if (!isRun) endOfLast = endOffset
      const line = text.slice(0, startOffset).split('\n').length
      const shown = branch.trim().replace(/\s+/g, ' ').slice(0, SHOWN_CHARACTERS)
      return [{ isRun, where: `${file}:${line}`, text: shown }]
    })
}
