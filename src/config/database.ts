// Chooses the database, and judges whether the connection to it is safe.
import { join } from 'node:path'
import { addressesOf, checkAddresses } from './postgres-hosts.ts'
import { decideEncryption } from './postgres-tls.ts'
import type { Environment, Reader } from './reader.ts'

export type PostgresConfig = {
  engine: 'postgres'
  url: string
  /** Most connections of this process to a host. */
  poolSize: number
  /** Whether a pooler in transaction mode is between the service and PostgreSQL. */
  hasPooler: boolean
}
export type DatabaseConfig = { engine: 'sqlite'; file: string } | PostgresConfig

/** Hashing is the bottleneck and holds no connection; a login holds one for a few milliseconds. */
const DEFAULT_POOL_SIZE = 10

const CONNECTION = 'The connection to the database'

export function readDatabase(read: Reader, dataDir: string): DatabaseConfig {
  const url = read.text('DATABASE_URL')
  const poolSize = read.integer('DATABASE_POOL_SIZE', DEFAULT_POOL_SIZE, 1, 200)
  const pooler = read.text('DATABASE_POOLER')
  if (pooler !== null && pooler !== 'transaction') {
    read.problems.push(
      `DATABASE_POOLER must be transaction, not "${pooler}". Leave it out if there is no pooler, or one that pools sessions.`,
    )
  }
  if (url === null) return { engine: 'sqlite', file: join(dataDir, 'login.db') }
  const problem = checkAddresses(url)
  if (problem) read.problems.push(problem)
  return { engine: 'postgres', url, poolSize, hasPooler: pooler !== null }
}

/** Problems prevent a start in production; warnings are given in every environment. */
type Judgement = { problems: string[]; warnings: string[] }

export function judgeDatabase(database: DatabaseConfig, env: Environment): Judgement {
  const safe = { problems: [], warnings: [] }
  if (database.engine !== 'postgres' || checkAddresses(database.url)) return safe
  // The settings are the same for all hosts, but one of them may be on this machine.
  const judged = addressesOf(database.url).map(address => judgeAddress(address, env))
  return {
    problems: [...new Set(judged.flatMap(({ problems }) => problems))],
    warnings: [...new Set(judged.flatMap(({ warnings }) => warnings))],
  }
}

function judgeAddress(address: string, env: Environment): Judgement {
  const safe = { problems: [], warnings: [] }
  const encryption = decideEncryption(address, env)
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

/** The environment variable that selects the database. */
export function sourceOf({ engine }: DatabaseConfig): string {
  return engine === 'sqlite' ? 'DATA_DIR' : 'DATABASE_URL'
}
