// The test command: starts one PostgreSQL for all files, then Node's test runner with the given files.
import { spawn } from 'node:child_process'
import { statfsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { loadConfig } from '../src/config/config.ts'
import { loadTls } from '../src/http/connection/tls.ts'
import { NO_FSYNC, startPostgres } from './postgres-server.ts'

/** One more than the cores of a small machine: many tests wait for time limits of the service. */
const FILES_AT_ONCE = 3
const MEMORY = '/dev/shm'
const NEEDED_BYTES = 1_000_000_000

const given = process.argv.slice(2)
const files =
  given.length > 0 ? given : ['src/**/*.test.ts', 'test/storage/*.contract.ts', 'test/*.test.ts']

const folder = await mkdtemp(join(tmpdir(), 'login-certificate-'))
const config = loadConfig({ NODE_ENV: 'test', DATA_DIR: folder })
// The service makes its development certificate there.
await loadTls(config, new Date())
const postgres = process.env.TEST_DATABASE_URL ? null : await startPostgres(NO_FSYNC)
const runner = spawn(
  process.execPath,
  ['--test', `--test-concurrency=${FILES_AT_ONCE}`, ...files],
  {
    stdio: 'inherit',
    env: {
      ...process.env,
      TEST_DATABASE_URL: process.env.TEST_DATABASE_URL ?? postgres?.url,
      TEST_FOLDER: process.env.TEST_FOLDER ?? dataFolder(),
      TEST_CERTIFICATE_FOLDER: folder,
      // Hundreds of processes start. Without the cache each would strip the types and compile again.
      NODE_COMPILE_CACHE: resolve('node_modules/.cache'),
    },
  },
)
// A signal to the process group reaches the runner directly. This process stays to stop PostgreSQL.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => runner.kill(signal))
process.exitCode = await new Promise<number>(resolve =>
  runner.once('exit', code => resolve(code ?? 1)),
)
await postgres?.stop()
await rm(folder, { recursive: true })

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
