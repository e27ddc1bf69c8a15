// What all processes of a test command share: one PostgreSQL server, templates of databases, and a certificate.
import { statfsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { loadConfig } from '../../src/config/config.ts'
import { loadTls } from '../../src/http/connection/tls.ts'
import { makeTemplates, query } from './engines.ts'
import { NO_FSYNC, startPostgres } from './postgres-server.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

const MEMORY = '/dev/shm'
/** A Debian with PostgreSQL and two versions of the service takes half of it. */
const NEEDED_BYTES = 3_000_000_000

/** A process runs its files one after the other. What they leave open does not keep it from ending. */
export const TEST_FLAGS = [
  ...['--test', '--test-isolation=none', '--test-force-exit'],
  `--test-reporter=${join(import.meta.dirname, 'reporter.ts')}`,
]

type Prepared = {
  env: NodeJS.ProcessEnv
  /** Stops the server and removes the templates. */
  end: () => Promise<void>
}

/** `isOnDisk`: with a disk and synced commits. */
export async function prepareTests(isOnDisk = false): Promise<Prepared> {
  const given = process.env.TEST_FOLDER
  const testFolder = given ?? (isOnDisk ? tmpdir() : dataFolder())
  process.env.TEST_FOLDER = testFolder
  const folder = await makeTemporaryFolder('login-templates-')
  const config = loadConfig({ NODE_ENV: 'test', DATA_DIR: folder })
  const [postgres] = await Promise.all([
    process.env.TEST_DATABASE_URL ? null : startPostgres(isOnDisk ? [] : NO_FSYNC),
    // Makes the development certificate in that folder.
    loadTls(config, new Date()),
  ])
  const server = process.env.TEST_DATABASE_URL ?? postgres?.url ?? ''
  const template = await makeTemplates(folder, server)
  // Another preparation may choose another folder.
  if (given === undefined) delete process.env.TEST_FOLDER
  return {
    env: {
      ...process.env,
      TEST_FOLDER: testFolder,
      TEST_DATABASE_URL: server,
      ...(postgres && { TEST_POSTGRES: postgres.folder }),
      TEST_TEMPLATES: folder,
      TEST_TEMPLATE_DATABASE: template,
      // Hundreds of processes start. Without the cache each would strip the types and compile again.
      NODE_COMPILE_CACHE: resolve('node_modules/.cache'),
    },
    async end() {
      // A signal to the process group has ended the command's own server already.
      if (postgres) await postgres.stop()
      else await query(server, `drop database ${template}`)
      await rm(folder, { recursive: true })
    },
  }
}

/**
 * In memory where there is room: a small SQLite transaction spends most of its time waiting for the disk, and a
 * new database of PostgreSQL takes a sixth of the CPU time. No test depends on a disk, since data in memory
 * survive the end of a process, too.
 */
function dataFolder(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize > NEEDED_BYTES ? MEMORY : tmpdir()
  } catch {
    return tmpdir()
  }
}
