// Log lines of a request: each has the request's id and the client. Refusals are logged here with their reason.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { CountedLog, Level, LineFacts } from '../../log/counted-log.ts'
import type { Client } from '../../login/attempt.ts'
import { EMAIL_MAX_LENGTH } from '../../login/credentials.ts'
import { clientGroup } from '../../system/client-group.ts'
import { isUuid } from '../../system/identifiers.ts'
import { type Details, sendFailure } from '../answer/envelope.ts'

/** The request's decorator for its client; null until the client is known. */
export const CLIENT = 'client'
export const COUNTED_LOG = 'countedLog'

/** Why a request is refused because of its form, or because the service is stopping, by the code of its answer. */
const REASON_OF = {
  BAD_REQUEST: 'bad-request',
  VALIDATION_ERROR: 'invalid-fields',
  PAYLOAD_TOO_LARGE: 'body-too-large',
  UNSUPPORTED_MEDIA_TYPE: 'media-type',
  EXPECTATION_FAILED: 'expectation',
  HEADERS_TOO_LARGE: 'headers-too-large',
  SERVICE_UNAVAILABLE: 'stopping',
} as const

type FormReason = (typeof REASON_OF)[keyof typeof REASON_OF] | 'malformed-json'

export type CsrfReason = `csrf-${'other-site' | 'no-site' | 'no-token' | 'wrong-token'}`

/**
 * Why a request is refused because of where it came from, the address to return to, the role of its user, or a
 * database that has too much to do.
 */
type OtherReason = 'origin' | 'return-to' | 'role' | 'amr' | 'database-busy'

/** The length of the database column. */
const USER_AGENT_MAX_LENGTH = 256
/** Longer than the origin of any site. A header may be as long as all headers together. */
const ORIGIN_MAX_CHARACTERS = 256

const refused = new WeakSet<FastifyRequest>()

export function requestId(request: Pick<IncomingMessage, 'headers'>): string {
  return givenRequestId(request) ?? randomUUID()
}

/** The caller's id, only if it is a UUID, so that a caller cannot put any text into the log. Null if there is none. */
export function givenRequestId({ headers }: Pick<IncomingMessage, 'headers'>): string | null {
  const given = headers['x-request-id']
  return isUuid(given) ? given : null
}

export function userAgentOf({ headers }: FastifyRequest): string {
  return (headers['user-agent'] ?? '').slice(0, USER_AGENT_MAX_LENGTH)
}

/**
 * People type passwords into the field of the email, also some with an @: text is logged only if it looks like an email
 * of the internet, or if a user has it. No stored email is longer than what is logged; the rest would only make the line as
 * long as the request.
 */
export function loggedEmail(typed: string, isKnown = false): string {
  const at = typed.lastIndexOf('@')
  const isEmail = at > 0 && /^[^.\s]+\../.test(typed.slice(at + 1)) && !/\s/.test(typed)
  if (!isKnown && !isEmail) return '(no email)'
  return typed.length > EMAIL_MAX_LENGTH ? `${typed.slice(0, EMAIL_MAX_LENGTH)}…` : typed
}

export function logOf(request: FastifyRequest) {
  const { ip, userAgent } = knownClientOf(request) ?? {}
  const write = (level: Level | 'debug') => (facts: object, text?: string) =>
    // A child logger for each request would cost as much as the line.
    request.log[level]({ requestId: request.id, ip, userAgent, ...facts }, text)
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

/** For lines that one client can cause at any rate: repetitions are counted, not written. */
export function logCounted(
  request: FastifyRequest,
  level: Level,
  facts: LineFacts,
  text?: string,
): void {
  const client = knownClientOf(request)
  const ip = client?.ip ?? request.raw.socket.remoteAddress ?? ''
  const userAgent = client?.userAgent ?? userAgentOf(request)
  const caller = { requestId: request.id, ip, userAgent }
  const countedLog = request.server.getDecorator<CountedLog>(COUNTED_LOG)
  countedLog.write(level, client?.group ?? clientGroup(ip), caller, facts, text)
}

/** Null before the client is identified. Fastify refuses some addresses before the request gets its decorators. */
function knownClientOf(request: FastifyRequest): Client | null {
  return CLIENT in request ? request.getDecorator<Client | null>(CLIENT) : null
}

/** Logs only the origin of an address: the rest of it may hold secrets. */
export function logRefused(
  request: FastifyRequest,
  reason: CsrfReason | OtherReason,
  origin?: string,
): void {
  refused.add(request)
  const from = origin === undefined ? {} : { origin: origin.slice(0, ORIGIN_MAX_CHARACTERS) }
  logCounted(request, 'warn', { event: 'request.refused', reason, ...from })
}

/** Answers with this failure, and logs why. An address that does not exist is not logged. */
export function refuse(
  request: FastifyRequest,
  reply: FastifyReply,
  code: keyof typeof REASON_OF | 'NOT_FOUND',
  details?: Details,
  reason: FormReason | null = code === 'NOT_FOUND' ? null : REASON_OF[code],
): FastifyReply {
  if (reason !== null) {
    refused.add(request)
    logCounted(request, 'info', { event: 'request.refused', reason })
  }
  return sendFailure(reply, code, details)
}

/** True if the refusal of the request has been logged. */
export function isRefused(request: FastifyRequest): boolean {
  return refused.has(request)
}
