// Log lines of a request: each has the request's id and the client.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { isUuid } from '../../identifiers.ts'
import type { CountedLog } from '../../log/counted-log.ts'
import { clientGroup } from '../../login/client-group.ts'
import type { Client } from '../../login/login.ts'

/** The request's decorator for its client; null until the client is known. */
export const CLIENT = 'client'
export const COUNTED_LOG = 'countedLog'

type Level = 'info' | 'warn' | 'error'

/** Why a request is refused because of the site that sent it, or the address that it asks to return to. */
export type RefusalReason =
  | 'csrf-other-site'
  | 'csrf-no-site'
  | 'csrf-no-token'
  | 'csrf-wrong-token'
  | 'origin'
  | 'return-to'

/** Longer than the origin of any site. A header may be as long as all headers together. */
const ORIGIN_MAX_CHARACTERS = 256

const refused = new WeakSet<FastifyRequest>()

/** Uses the caller's id only if it is a UUID, so that a caller cannot put any text into the log. */
export function requestId({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  return isUuid(given) ? given : randomUUID()
}

export function logOf(request: FastifyRequest) {
  const client = request.getDecorator<Client | null>(CLIENT)
  const caller = client && { ip: client.ip, userAgent: client.userAgent }
  const write = (level: Level | 'debug') => (facts: object, text?: string) =>
    // A child logger for each request would cost as much as the line.
    request.log[level]({ requestId: request.id, ...caller, ...facts }, text)
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    /** For lines that one client can cause at any rate: repetitions are counted, not written. */
    counted(
      level: Level,
      facts: { event: string } & Record<string, string>,
      text?: string,
      err?: Error,
    ) {
      const countedLog = request.server.getDecorator<CountedLog>(COUNTED_LOG)
      const unknown = { ip: '', userAgent: '' }
      const line = { requestId: request.id, ...unknown, ...caller, ...facts }
      countedLog.write(level, client?.group ?? clientGroup(line.ip), line, text, err)
    },
  }
}

/** Logs only the origin of an address: the rest of it may hold secrets. */
export function logRefused(request: FastifyRequest, reason: RefusalReason, origin?: string): void {
  refused.add(request)
  const facts = { event: 'request.refused', reason }
  logOf(request).counted(
    'warn',
    origin === undefined ? facts : { ...facts, origin: origin.slice(0, ORIGIN_MAX_CHARACTERS) },
  )
}

/** True if `logRefused` has logged the request. */
export function isRefused(request: FastifyRequest): boolean {
  return refused.has(request)
}
