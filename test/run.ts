// The test command: starts one PostgreSQL for all files, then Node's test runner with the given files.
import { spawn } from 'node:child_process'
import { globSync, readFileSync, statfsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { loadConfig } from '../src/config/config.ts'
import { loadTls } from '../src/http/connection/tls.ts'
import { NO_FSYNC, startPostgres } from './postgres-server.ts'

/**
 * Twice the cores of a small machine, because many tests wait for time limits of the service. Some long suites
 * compare times: these have the disk, commits that are synced, and fewer neighbours. A file of the cluster
 * suites starts up to ten processes.
 */
const FILES_AT_ONCE = { usual: 4, long: 2, cluster: 1 }
const USUAL_FILES = ['src/**/*.test.ts', 'test/storage/*.contract.ts', 'test/*.test.ts']
const MEMORY = '/dev/shm'
/** A Debian with PostgreSQL and two versions of the service takes half of it. */
const NEEDED_BYTES = 3_000_000_000

const given = process.argv.slice(2)
const isLong = given.some(file => file === '--long' || file.startsWith('test/long/'))
const filesAtOnce = given.some(file => file.startsWith('test/cluster/'))
  ? FILES_AT_ONCE.cluster
  : FILES_AT_ONCE[isLong ? 'long' : 'usual']
const files = given[0] === '--long' ? longFiles() : given.length > 0 ? given : USUAL_FILES

const folder = await mkdtemp(join(tmpdir(), 'login-certificate-'))
const config = loadConfig({ NODE_ENV: 'test', DATA_DIR: folder })
const [postgres] = await Promise.all([
  process.env.TEST_DATABASE_URL ? null : startPostgres(isLong ? [] : NO_FSYNC),
  // Makes the development certificate in that folder.
  loadTls(config, new Date()),
])
const runner = spawn(process.execPath, ['--test', `--test-concurrency=${filesAtOnce}`, ...files], {
  stdio: 'inherit',
  env: {
    ...process.env,
    TEST_DATABASE_URL: process.env.TEST_DATABASE_URL ?? postgres?.url,
    TEST_FOLDER: process.env.TEST_FOLDER ?? (isLong ? tmpdir() : dataFolder()),
    TEST_CERTIFICATE_FOLDER: folder,
    ...(isLong && { TEST_LONG: '1' }),
    // Hundreds of processes start. Without the cache each would strip the types and compile again.
    NODE_COMPILE_CACHE: resolve('node_modules/.cache'),
  },
})
// A signal to the process group reaches the runner directly. This process stays to stop PostgreSQL.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => runner.kill(signal))
process.exitCode = await new Promise<number>(resolve =>
  runner.once('exit', code => resolve(code ?? 1)),
)
await postgres?.stop()
await rm(folder, { recursive: true })

/** The long suites, and those that run on another engine than in `npm test`. */
function longFiles(): string[] {
  const onOtherEngine = globSync('test/*.test.ts').filter(file =>
    readFileSync(file, 'utf8').includes('ENGINES_BY_RUN'),
  )
  return ['test/long/*.test.ts', ...onOtherEngine]
}

/**
 * In memory where there is room: a small SQLite transaction spends most of its time waiting for the disk.
 * No test depends on a disk, since data in memory survive the end of a process, too.
 */
function dataFolder(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize > NEEDED_BYTES ? MEMORY : tmpdir()
  } catch {
    return tmpdir()
  }
}
