// Releases of the service as files, because a clone may lack their commits. They use our `node_modules`, so packages
// that only the previous release needs are dev dependencies until it is renewed: helmet, pino-pretty, prom-client.
// docs/decisions/0040 says how the previous one is renewed:
//   git archive 730ae5e launch.cjs package.json src ':!src/**/*.test.ts' | gzip -9n > test/upgrade/previous-release.tar.gz
// The first one has the tables of migration 0001. It stays as it is:
//   git archive 368a2dd package.json src ':!*.test.ts' ':!*contract*' | gzip -9n > test/upgrade/first-release.tar.gz
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { promisify } from 'node:util'
import bcrypt from 'bcrypt'
import { type Deployment, PROJECT, type RunningProcess, run, SERVE } from '../process.ts'
import { PASSWORD, TEST_COST } from '../service.ts'
import { makeTemporaryFolder } from '../temporary-folder.ts'

/** Unpacks a release for the tests of the calling file. Returns the command that serves. */
export function useRelease(name: 'first' | 'previous'): () => string[] {
  const file = new URL(`${name}-release.tar.gz`, import.meta.url).pathname
  let folder: string
  before(async () => {
    folder = await makeTemporaryFolder('login-release-')
    await promisify(execFile)('tar', ['-xzf', file, '-C', folder])
    await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
  })
  after(() => rm(folder, { recursive: true }))
  return () =>
    name === 'first'
      ? [process.execPath, join(folder, 'src/main.ts'), 'serve']
      : SERVE.map(part => part.replace(join(PROJECT, 'launch.cjs'), join(folder, 'launch.cjs')))
}

/** "database migrate" of this version. */
export function migrate({ env }: Deployment): RunningProcess {
  return run(env, { command: [...SERVE.slice(0, -1), 'database', 'migrate'] })
}

/** By SQL: the tables are those of another version. */
export async function addUser({ database }: Deployment): Promise<string> {
  const email = `${randomUUID()}@example.com`
  const hash = await bcrypt.hash(PASSWORD, TEST_COST)
  await database.rows(
    `insert into users (id, email, password_hash, name) values ('${randomUUID()}', '${email}', '${hash}', 'Test')`,
  )
  return email
}

/** An event without fields, as that of an ended session. */
export async function addEvent({ database }: Deployment): Promise<void> {
  await database.rows(`insert into audit_events (at, actor_kind, actor, host, action, target)
    values ('2030-01-31T12:00:00.000Z', 'user', 'root', 'login1', 'session.ended', 'ann@example.com')`)
}

export async function migrationNames({ database }: Deployment): Promise<string[]> {
  const rows = await database.rows('select name from kysely_migration order by name')
  return rows.map(({ name }) => String(name))
}
