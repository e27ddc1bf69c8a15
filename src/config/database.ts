// The address of a PostgreSQL, and whether the connection to it is safe.
import type { Kind } from './kinds.ts'
import { addressesOf, checkAddresses } from './postgres-hosts.ts'
import { decideEncryption } from './postgres-tls.ts'

export type PostgresConfig = {
  engine: 'postgres'
  url: string
  /** Most connections of this process to a host. */
  poolSize: number
}
export type DatabaseConfig = { engine: 'sqlite'; file: string } | PostgresConfig

export const postgresUrl: Kind<string> = {
  values: '`postgres://…`',
  parse(text, { environment, env, refuse, warn }) {
    const problem = checkAddresses(text)
    if (problem) return refuse(problem)
    // The settings are the same for all hosts, but one of them may be on this machine.
    const encryptions = addressesOf(text).map(address => decideEncryption(address, env))
    if (encryptions.includes('unstated') && environment === 'production') {
      refuse(
        'In production a database on another machine needs TLS: add sslmode=verify-full (and sslrootcert=FILE for a CA of your own) to DATABASE_URL, or sslmode=disable if you trust the network in between.',
      )
    }
    if (encryptions.includes('unverified')) {
      warn(
        'The connection to the database does not verify the server: set sslmode=verify-full, and sslrootcert=FILE for a CA of your own.',
      )
    }
    if (encryptions.includes('plain')) {
      warn('The connection to the database is not encrypted (sslmode=disable).')
    }
    return text
  },
}

/** The environment variable that selects the database. */
export function sourceOf({ engine }: DatabaseConfig): string {
  return engine === 'sqlite' ? 'DATA_DIR' : 'DATABASE_URL'
}
