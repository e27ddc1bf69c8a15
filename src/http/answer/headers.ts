// The headers that every answer has.
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import helmet from 'helmet'

const ONE_YEAR_SECONDS = 31_536_000
/** Answers are data: browsers must not load, run or frame anything in them. */
const CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'"

export const PROTECTIVE_HEADERS: Record<string, string> = {
  ...headersOf(
    helmet({
      contentSecurityPolicy: false,
      strictTransportSecurity: { maxAge: ONE_YEAR_SECONDS, includeSubDomains: true },
      referrerPolicy: { policy: 'no-referrer' },
      frameguard: { action: 'deny' },
    }),
  ),
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cache-control': 'no-store',
}

export function addHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers({ ...PROTECTIVE_HEADERS, 'X-Request-ID': request.id })
}

/** Runs the middleware once: answers that Fastify does not send need its headers too. */
function headersOf(middleware: ReturnType<typeof helmet>): Record<string, string> {
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  middleware(response.req, response, () => {})
  return Object.fromEntries(
    response.getHeaderNames().map(name => [name, String(response.getHeader(name))]),
  )
}
