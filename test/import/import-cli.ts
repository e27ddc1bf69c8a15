// Imports by an administrator, for tests.
import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { MAIN, setUpCli } from '../support/cli.ts'
import { createMigratedDatabase } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { TEST_COST } from '../support/service.ts'

export const PASSWORD = 'correct horse'
export const HASH = await bcrypt.hash(PASSWORD, TEST_COST)
export const HEADING = 'email,name,role,passwordHash'
export const TEMPORARY = ['--without-passwords', 'temporary']

export async function setUpImports(engine: EngineName = 'sqlite', server?: string) {
  const cli = await setUpCli(engine, createMigratedDatabase(engine, server))
  const { rows } = cli.database
  const pathOf = (name: string) => join(cli.folder, name)
  return {
    ...cli,
    pathOf,
    /** Writes a file and imports it. */
    async importFile(name: string, content: string | Buffer, ...options: string[]) {
      await writeFile(pathOf(name), content)
      const ended = await cli.run(['users', 'import', name, '--json', ...options])
      const events = ended.stderr.split('\n').filter(line => !/^($|\{|Reading )/.test(line))
      return { code: ended.code, counts: JSON.parse(ended.stdout || 'null'), said: events }
    },
    users: () => rows('select * from users order by email'),
    events: async () => Number((await rows('select count(*) as n from audit_events'))[0]?.n),
    spawnImport: (...args: string[]) =>
      spawn(process.execPath, [MAIN, 'users', 'import', ...args], {
        cwd: cli.folder,
        env: cli.env,
      }),
    /** Waits until the import has stored users; fails with what it says if it ends instead. */
    async hasStored({ stderr }: ChildProcessWithoutNullStreams) {
      let said = ''
      stderr.on('data', chunk => {
        said += chunk
      })
      await until(async () => {
        if (stderr.readableEnded) throw new Error(`the import ended: ${said}`)
        return Number((await rows('select count(*) as n from users'))[0]?.n) > 0
      })
      return { said: () => said }
    },
  }
}

export const counts = (added: number, updated: number, unchanged: number, rejected: number) => ({
  ...{ added, updated, unchanged, skipped: 0, rejected },
})

/** A file of users with hashes. */
export const csvOf = (users: number) =>
  linesOf(HEADING, users, i => `user${i}@example.org,User ${i},user,${HASH}`)

/** A file of users without passwords, not in the order of their emails. */
export const rowsOf = (users: number) =>
  linesOf('email,name', users, i => `u${(i * 7) % users}@example.org,U`)

function linesOf(heading: string, users: number, line: (index: number) => string): string {
  return [heading, ...Array.from({ length: users }, (_, i) => line(i)), ''].join('\n')
}

/** The users in a file of temporary passwords. */
export async function passwordsIn(file: string) {
  const [heading, ...lines] = (await readFile(file, 'utf8')).trimEnd().split('\r\n')
  assert.equal(heading, 'email,password')
  return lines
    .map(line => line.split(','))
    .map(([email = '', password = '']) => ({ email, password }))
}
