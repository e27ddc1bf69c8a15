// HTTPS only: by this service's own TLS, or by a proxy that says so and is trusted.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Client } from '../login/login.ts'
import { clientAddress, clientGroup, clientNetwork, type Proxies } from './client-address.ts'
import { sendFailure } from './envelope.ts'
import type { RefusalLog } from './refusal-log.ts'

export const CLIENT = 'client'
export const REFUSALS = 'refusals'

/** What of a User-Agent is worth keeping; its column holds no more. */
const USER_AGENT_MAX_LENGTH = 256

/** Settles who is calling before anything else happens, or refuses the request. */
export function identifyClient(proxies: Proxies) {
  return (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    const peer = request.raw.socket.remoteAddress
    // Gone already, and with it who it was.
    if (peer === undefined) return reply.hijack().raw.destroy()
    const { headers } = request
    const isProxied = proxies.isTrusted(peer)
    const userAgent = (headers['user-agent'] ?? '').slice(0, USER_AGENT_MAX_LENGTH)

    if (!(isProxied ? isForwardedHttps(headers['x-forwarded-proto']) : isEncrypted(request))) {
      const facts = { event: 'request.refused', reason: 'not-https', ip: peer, userAgent }
      logOf(request).refused('warn', facts, 'not over HTTPS')
      return sendFailure(reply, 'HTTPS_REQUIRED')
    }
    const ip = clientAddress(peer, headers['x-forwarded-for']?.toString(), proxies)
    if (ip === null) {
      logOf(request).refused(
        'error',
        { event: 'request.failed', ip: peer, userAgent },
        'The trusted proxy sent no usable X-Forwarded-For header: make it send one.',
      )
      return sendFailure(reply, 'INTERNAL_ERROR')
    }
    // Browsers send this header by themselves and let no page set it.
    const isBrowser = headers['sec-fetch-site'] !== undefined
    const client: Client = {
      ip,
      group: clientGroup(ip),
      network: clientNetwork(ip),
      userAgent,
      isBrowser,
    }
    request.setDecorator(CLIENT, client)
    done()
  }
}

export function clientOf(request: FastifyRequest): Client {
  return request.getDecorator<Client>(CLIENT)
}

/** Writes a line of this request: with its id, and who called. */
export function logOf(request: FastifyRequest) {
  logged.add(request)
  const client = request.getDecorator<Client | null>(CLIENT)
  const caller = client && { ip: client.ip, userAgent: client.userAgent }
  const write = (level: 'info' | 'warn' | 'error') => (facts: object, text?: string) =>
    // Not a logger of its own for each request: that would cost as much as the line.
    request.log[level]({ requestId: request.id, ...caller, ...facts }, text)
  return {
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    /** What the same client may cause again and again: repetitions are counted. */
    refused(
      level: 'info' | 'warn' | 'error',
      facts: { event: string } & Record<string, string>,
      text?: string,
      err?: Error,
    ) {
      const refusals = request.server.getDecorator<RefusalLog>(REFUSALS)
      const unknown = { ip: '', userAgent: '' }
      const line = { requestId: request.id, ...unknown, ...caller, ...facts }
      refusals.write(level, client?.group ?? clientGroup(line.ip), line, text, err)
    },
  }
}

const logged = new WeakSet<FastifyRequest>()

/** Whoever has an answer finds its lines in the log, which are written at the end of this turn. */
export function answerAfterLog(
  request: FastifyRequest,
  _reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
): void {
  if (logged.has(request)) setImmediate(done, null, payload)
  else done(null, payload)
}

function isEncrypted(request: FastifyRequest): boolean {
  return 'encrypted' in request.raw.socket && request.raw.socket.encrypted === true
}

/** The right-most entry is the one that the trusted peer itself wrote. */
function isForwardedHttps(header: string | string[] | undefined): boolean {
  const entries = header?.toString() ?? ''
  return (
    entries
      .slice(entries.lastIndexOf(',') + 1)
      .trim()
      .toLowerCase() === 'https'
  )
}
