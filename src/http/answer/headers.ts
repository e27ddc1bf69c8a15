// The headers that every answer carries, computed once.
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import helmet from 'helmet'

const ONE_YEAR_SECONDS = 31_536_000
/** An answer is data: nothing in it is ever to be loaded, run or framed. */
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

/** What the middleware would set, so that answers outside its reach can carry it too. */
function headersOf(middleware: ReturnType<typeof helmet>): Record<string, string> {
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  middleware(response.req, response, () => {})
  return Object.fromEntries(
    response.getHeaderNames().map(name => [name, String(response.getHeader(name))]),
  )
}
