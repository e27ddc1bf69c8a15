// Both engines for a test: an empty database of its own on each, gone afterwards.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { EngineName } from '../src/storage/engine.ts'
import type { DatabaseConfig } from '../src/storage/open-store.ts'

export const ENGINES: EngineName[] = ['sqlite', 'postgres']

export type TestDatabase = { config: DatabaseConfig; drop: () => Promise<void> }

export async function createTestDatabase(engine: EngineName): Promise<TestDatabase> {
  return engine === 'sqlite' ? createSqlite() : createPostgres()
}

async function createSqlite(): Promise<TestDatabase> {
  const folder = await mkdtemp(join(tmpdir(), 'login-sqlite-'))
  return {
    config: { engine: 'sqlite', file: join(folder, 'login.db') },
    drop: () => rm(folder, { recursive: true }),
  }
}

async function createPostgres(): Promise<TestDatabase> {
  const server = process.env.TEST_DATABASE_URL
  if (!server) throw new Error('TEST_DATABASE_URL is not set: run the tests with "npm test"')
  const name = `login_test_${randomBytes(8).toString('hex')}`
  await administer(server, `create database ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    config: { engine: 'postgres', url: url.toString() },
    drop: () => administer(server, `drop database ${name} with (force)`),
  }
}

async function administer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(statement)
  await client.end()
}
