// Identifies the client. Refuses requests that did not arrive over HTTPS: either over this service's own
// TLS, or through a trusted proxy that reports HTTPS.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Client } from '../../login/attempt.ts'
import { clientGroup, clientNetwork } from '../../system/client-group.ts'
import { sendFailure } from '../answer/envelope.ts'
import { clientAddress, type Proxies, trustProxies } from './client-address.ts'
import { CLIENT, logCounted, userAgentOf } from './log.ts'

const NO_PROXIES = trustProxies([])

export function identifyClient(
  allProxies: Proxies,
  isDirect: (request: FastifyRequest) => boolean = () => false,
) {
  return (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    const peer = request.raw.socket.remoteAddress
    // The connection is closed already, so its address is unknown.
    if (peer === undefined) return reply.hijack().raw.destroy()
    const { headers } = request
    const proxies = isDirect(request) ? NO_PROXIES : allProxies
    const isProxied = proxies.isTrusted(peer)

    if (!(isProxied ? isForwardedHttps(headers['x-forwarded-proto']) : isEncrypted(request))) {
      const facts = { event: 'request.refused', reason: 'not-https' }
      logCounted(request, 'warn', facts, 'not over HTTPS')
      return sendFailure(reply, 'HTTPS_REQUIRED')
    }
    const ip = clientAddress(peer, headers['x-forwarded-for']?.toString(), proxies)
    if (ip === null) {
      const text = 'The trusted proxy sent no usable X-Forwarded-For header: make it send one.'
      logCounted(request, 'error', { event: 'request.failed' }, text)
      return sendFailure(reply, 'INTERNAL_ERROR')
    }
    const client: Client = {
      ip,
      group: clientGroup(ip),
      network: clientNetwork(ip),
      userAgent: userAgentOf(request),
      // Browsers send this header themselves, and no page can set it.
      isBrowser: headers['sec-fetch-site'] !== undefined,
    }
    request.setDecorator(CLIENT, client)
    done()
  }
}

export function clientOf(request: FastifyRequest): Client {
  return request.getDecorator<Client>(CLIENT)
}

function isEncrypted(request: FastifyRequest): boolean {
  return 'encrypted' in request.raw.socket && request.raw.socket.encrypted === true
}

/** Only the right-most entry is read: the trusted peer wrote it. */
function isForwardedHttps(header: string | string[] | undefined): boolean {
  return /(^|,)\s*https\s*$/i.test(header?.toString() ?? '')
}
