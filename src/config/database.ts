// Chooses the database, and judges whether the connection to it is safe.
import { join } from 'node:path'
import { decideEncryption } from './postgres-tls.ts'
import type { Environment, Reader } from './reader.ts'

export type DatabaseConfig =
  | { engine: 'sqlite'; file: string }
  | { engine: 'postgres'; url: string }

const CONNECTION = 'The connection to the database'

export function readDatabase(read: Reader, dataDir: string): DatabaseConfig {
  const url = read.text('DATABASE_URL')
  if (url === null) return { engine: 'sqlite', file: join(dataDir, 'login.db') }
  if (!isPostgresUrl(url)) {
    // The message does not repeat the value, which may contain a password.
    read.problems.push('DATABASE_URL must look like postgres://user:password@host:5432/name.')
  }
  return { engine: 'postgres', url }
}

/** Problems prevent a start in production; warnings are given in every environment. */
export function judgeDatabase(
  database: DatabaseConfig,
  env: Environment,
): { problems: string[]; warnings: string[] } {
  const safe = { problems: [], warnings: [] }
  if (database.engine !== 'postgres' || !isPostgresUrl(database.url)) return safe
  const encryption = decideEncryption(database.url, env)
  switch (encryption) {
    case 'local':
    case 'verified':
      return safe
    case 'unverified':
      return {
        ...safe,
        warnings: [
          `${CONNECTION} does not verify the server: set sslmode=verify-full, and sslrootcert=FILE for a CA of your own.`,
        ],
      }
    case 'plain':
      return { ...safe, warnings: [`${CONNECTION} is not encrypted (sslmode=disable).`] }
    case 'unstated':
      return {
        ...safe,
        problems: [
          'In production a database on another machine needs TLS: add sslmode=verify-full (and sslrootcert=FILE for a CA of your own) to DATABASE_URL, or sslmode=disable if you trust the network in between.',
        ],
      }
    default:
      return encryption satisfies never
  }
}

function isPostgresUrl(url: string): boolean {
  return URL.canParse(url) && /^postgres(ql)?:\/\//.test(url)
}
