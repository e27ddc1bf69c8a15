// What is logged once the service listens: its addresses and, while there are no users, how to add one.
import type { Config } from './config.ts'
import type { Log } from './log.ts'

export type Start = {
  /** Where it listens. */
  url: string
  /** Where people log in; null where only the operator knows it. */
  page: string | null
  engine: Config['database']['engine']
  hasUsers: boolean
}

export function announceStart(log: Log, { url, page, engine, hasUsers }: Start): void {
  log.info(
    { event: 'service.started', address: url, ...(page && { page }), database: engine },
    `listening on ${url}${page ? `, login page at ${page}` : ''}`,
  )
  if (hasUsers) return
  log.info(
    { event: 'service.no_users' },
    'there are no users yet; to add one, run in the same environment: npm run -s admin -- users add EMAIL --name NAME',
  )
}
