// Starting the service: binding ports, announcing the addresses, and errors that the operator can fix.
import type { Server } from 'node:net'
import type { DatabaseConfig } from './config/database.ts'
import { describeProgress, type MigrationProgress } from './domain/migration.ts'
import { codeOf, hasCode } from './files.ts'
import type { Log } from './log/log.ts'

/** An error that the operator can fix. It is shown without a stack trace. */
export class StartError extends Error {}

/** Turns a rejection into a StartError that begins with `what`. */
export function failStart(what: string) {
  return (error: Error & { code?: string }): never => {
    // Connecting to a host with several addresses fails with an AggregateError, whose message is empty.
    throw new StartError(`${what}: ${error.message || error.code}`)
  }
}

/** Returns the port that was bound. */
export async function listen(
  server: Server,
  port: number,
  host: string,
  variable: string,
): Promise<number> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(port, host, resolve)
    })
  } catch (error) {
    if (hasCode(error, 'EADDRINUSE')) {
      throw new StartError(`Port ${port} is taken: stop the other process or set ${variable}.`)
    }
    const hostVariable = variable.replace('PORT', 'HOST')
    throw new StartError(
      `${host}:${port} cannot be listened on (${codeOf(error)}): set ${hostVariable} or ${variable}.`,
    )
  }
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return address.port
}

export function urlOf(host: string, port: number, isEncrypted: boolean): string {
  const name = host.includes(':') ? `[${host}]` : host
  return `${isEncrypted ? 'https' : 'http'}://${name}:${port}`
}

export function logMigration(log: Log, progress: MigrationProgress): void {
  const { kind, ...facts } = progress
  const sentence = describeProgress(progress)
  if (kind === 'applying') log.info({ event: 'database.migrating', ...facts }, sentence)
  else log.warn({ event: 'database.migration_waiting', ...facts }, sentence)
}

type Start = {
  /** Where the service listens. */
  url: string
  /** Where users log in; null if the service does not know its public address. */
  page: string | null
  /** Where the admin API listens; null if it is off. */
  admin: string | null
  engine: DatabaseConfig['engine']
  hasUsers: boolean
}

export function announceStart(log: Log, { url, page, admin, engine, hasUsers }: Start): void {
  log.info(
    {
      event: 'service.started',
      address: url,
      ...(page && { page }),
      ...(admin && { admin }),
      database: engine,
    },
    `listening on ${url}${page ? `, login page at ${page}` : ''}`,
  )
  if (hasUsers) return
  log.info(
    { event: 'service.no_users' },
    'there are no users yet; to add one, run in the same environment: npx login-service users add EMAIL --name NAME',
  )
}
